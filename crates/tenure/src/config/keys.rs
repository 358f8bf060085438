//! THE table of settings. A key stands here only if something reads it.

use std::net::IpAddr;
use std::path::PathBuf;

use super::Preset::{ByUser, Place, Text};
use super::value::{
    Bytes, Compaction, Filter, LogFormat, NodeName, NodeUrl, OnEnd, PlainText, PoolName, Pools, ScopeOrNone,
    SlotReuse, StoreAddress, Value,
};
use super::{ConfigError, Given, Key, Origin};
use crate::duration::Span;

macro_rules! settings {
    ($(
        $(#[doc = $about:literal])+
        $section:ident: $Section:ident {
            $(
                $(#[doc = $doc:literal])+
                $key:ident: $type:ty = $preset:expr, $flag:literal,
                $(as $placeholder:literal,)? $(within $least:literal to $greatest:literal,)? like $example:literal;
            )+
        }
    )+) => {
        /// Everything an operator may set.
        #[derive(Clone, PartialEq, Debug)]
        pub(crate) struct Settings {
            $($(#[doc = $about])+ pub(crate) $section: $Section,)+
            /// The file that was read, if there was one.
            pub(super) file: Option<PathBuf>,
            /// Where each value came from, in the order of [`KEYS`].
            pub(super) origins: Vec<Origin>,
        }

        $(
            $(#[doc = $about])+
            #[derive(Clone, PartialEq, Debug)]
            pub(crate) struct $Section {
                $($(#[doc = $doc])+ pub(crate) $key: $type,)+
            }
        )+

        /// Every section and what it is about.
        pub(super) const SECTIONS: &[(&str, &str)] = &[$((stringify!($section), concat!($($about),+)),)+];

        /// Every key, in order.
        pub(super) static KEYS: &[Key] = &[$($(
            Key {
                path: concat!(stringify!($section), ".", stringify!($key)),
                section: stringify!($section),
                name: stringify!($key),
                flag: $flag,
                docs: &[$($doc),+],
                preset: $preset,
                range: settings!(@range $($least, $greatest)?),
                example: $example,
                shape: <$type as Value>::SHAPE,
                placeholder: settings!(@placeholder $type, $($placeholder)?),
                choices: <$type as Value>::CHOICES,
                check: |text| {
                    super::value::parse_within::<$type>(text, settings!(@range $($least, $greatest)?)).map(drop)
                },
                shown: |settings| settings.$section.$key.written(),
            },
        )+)+];

        impl Settings {
            /// Takes each value from where it counts most.
            pub(super) fn read(given: &Given<'_>) -> Result<Self, ConfigError> {
                let mut keys = KEYS.iter();
                let mut origins = Vec::with_capacity(KEYS.len());
                let mut next = || keys.next().expect("invariant: one row per field");
                // A struct's fields are evaluated as they are written: the order of the table.
                Ok(Self {
                    $($section: $Section {
                        $($key: {
                            let (value, origin) = given.value::<$type>(next())?;
                            origins.push(origin);
                            value
                        },)+
                    },)+
                    file: given.file.path.clone(),
                    origins,
                })
            }
        }
    };
    (@placeholder $type:ty,) => { <$type as Value>::PLACEHOLDER };
    (@placeholder $type:ty, $placeholder:literal) => { $placeholder };
    (@range) => { None };
    (@range $least:literal, $greatest:literal) => { Some(($least, $greatest)) };
}

settings! {
    /// Addresses, data directory and TLS.
    server: Server {
        /// Listen for TCP connections on this address
        ///
        /// An address that other machines can reach requires `--token-file`, `--client-ca` or `--insecure-no-auth`.
        bind: IpAddr = Text("127.0.0.1"), "bind", like "127.0.0.2";
        /// Listen on this TCP port; 0 lets the system choose
        port: u16 = Text("5641"), "port", like "7000";
        /// Keep the log and its snapshots in this directory
        data_dir: PathBuf = Place(|places| places.data.clone()), "data-dir", as "DIR", like "/srv/tenure";
        /// Write `daemon.json`, by which clients on this machine find the daemon, into this directory
        ///
        /// An empty path writes no such file.
        run_dir: Option<PathBuf> = Place(|places| places.run.clone()), "run-dir", as "DIR", like "/srv/run";
        /// Listen on this Unix socket (mode 0660)
        ///
        /// An empty path opens no socket.
        socket: Option<PathBuf> = Place(super::places::Places::socket), "socket", like "/srv/tenure.sock";
        /// Serve HTTPS with this certificate chain (PEM)
        ///
        /// The daemon then rejects plain HTTP. It reloads the certificate, the key, the client CA and the revocation lists
        /// when the files change.
        tls_cert: Option<PathBuf> = Text(""), "tls-cert", as "FILE", like "/srv/cert.pem";
        /// Use this private key (PEM) for the certificate
        tls_key: Option<PathBuf> = Text(""), "tls-key", as "FILE", like "/srv/key.pem";
        /// Require client certificates that a CA in this file (PEM) signed (mTLS)
        client_ca: Option<PathBuf> = Text(""), "client-ca", as "FILE", like "/srv/ca.pem";
        /// Reject client certificates that a revocation list (CRL, PEM) in this file names
        ///
        /// Every CA that issues client certificates then needs a list in the file.
        client_crl: Option<PathBuf> = Text(""), "client-crl", as "FILE", like "/srv/crl.pem";
        /// Accept requests that name this host, besides the daemon's addresses and the names in its certificate
        ///
        /// The daemon rejects a request without a token if its Host header names another server. A name without a port is
        /// valid with every port. The host in `--advertise` is always accepted.
        server_name: Vec<String> = Text(""), "server-name", as "NAME[:PORT]", like "lease.example,10.0.0.9:8443";
        /// Let web pages of this origin (scheme, host, port) call the API
        ///
        /// The daemon also accepts the host of such an origin as a server name, because a proxy in front may send it.
        allow_origin: Vec<String> = Text(""), "allow-origin", as "ORIGIN",
            like "https://board.example,http://127.0.0.1:3000";
    }

    /// Authentication and scopes.
    auth: Auth {
        /// Give programs on this machine this scope over TCP without a credential
        ///
        /// Root and the daemon's own user have the scope admin, as on the socket.
        local: ScopeOrNone = ByUser { root: "hold", others: "admin" }, "auth-local", like "read";
        /// Require a token from this file on every TCP connection
        ///
        /// Each line is `name scope sha256-hex`; `tenure token` maintains the file, and the daemon reloads it when it changes.
        token_file: Option<PathBuf> = Text(""), "token-file", as "FILE", like "/srv/tokens";
        /// Give clients with a certificate of the client CA this scope
        ///
        /// `cert_scope_file` overrides it for the certificates that it names.
        cert_scope: ScopeOrNone = Text("hold"), "auth-cert-scope", like "admin";
        /// Read scopes of single client certificates from this file
        ///
        /// Each line is `subject scope`, such as `CN=ci,O=Example hold:build/*` or `DNS:ci.example read`. The daemon reloads
        /// the file when it changes.
        cert_scope_file: Option<PathBuf> = Text(""), "auth-cert-scope-file", as "FILE", like "/srv/cert-scopes";
        /// Give everyone who can reach the port the scope of `--auth-local`; for tests only
        insecure_no_auth: bool = Text("false"), "insecure-no-auth", like "true";
    }

    /// Limits. A request that exceeds one gets an error; no queue grows without bound.
    limits: Limits {
        /// Limit live leases
        leases: u64 = Text("10000000"), "limits-leases", within "1" to "1000000000", like "1000";
        /// Limit live leases per principal
        leases_per_principal: u64 = Text("1000000"), "limits-leases-per-principal",
            within "1" to "1000000000", like "100";
        /// Limit pools
        pools: u64 = Text("10000"), "limits-pools", within "1" to "10000000", like "20";
        /// Limit open sessions, including connections that hold leases
        sessions: u64 = Text("1000000"), "limits-sessions", within "1" to "100000000", like "500";
        /// Limit open sessions per principal
        sessions_per_principal: u64 = Text("500000"), "limits-sessions-per-principal",
            within "1" to "100000000", like "50";
        /// Limit the bytes of all attachments of live leases
        attachment_bytes: Bytes = Text("1GiB"), "limits-attachment-bytes", within "0B" to "1TiB", like "64MiB";
        /// Limit the bytes of all attachments per principal
        attachment_bytes_per_principal: Bytes = Text("512MiB"), "limits-attachment-bytes-per-principal",
            within "0B" to "1TiB", like "32MiB";
        /// Limit acquire requests that wait, including retries of the same request
        waiters: u64 = Text("100000"), "limits-waiters", within "0" to "10000000", like "50";
        /// Limit acquire requests that wait, per principal
        waiters_per_principal: u64 = Text("50000"), "limits-waiters-per-principal",
            within "0" to "10000000", like "40";
        /// Limit acquire requests that wait, per connection
        waiters_per_connection: u64 = Text("1000"), "limits-waiters-per-connection",
            within "0" to "1000000", like "20";
        /// Limit open connections over all transports
        ///
        /// The daemon reserves an eighth of them (at least 64, at most half) for the socket. One remote address gets at most
        /// half of the rest; one user of this machine, root excepted, gets at most seven eighths of all, and of the rest.
        connections: u64 = Text("20000"), "limits-connections", within "1" to "1000000", like "300";
        /// Limit requests per second and principal, heartbeats of leases and sessions excepted; 0 means unlimited
        requests_per_second: u64 = Text("0"), "limits-requests-per-second", within "0" to "4000000000", like "250";
        /// Limit requests that the daemon has read but not yet decided
        ///
        /// Heartbeats, ends, grants and reads get a quarter each. An eighth of each quarter is reserved for operators, another
        /// eighth for principals with few unanswered requests.
        inbox: u64 = Text("65536"), "limits-inbox", within "64" to "16777216", like "1024";
        /// Limit unanswered requests, including those that wait; at least `inbox`
        ///
        /// The daemon counts heartbeats, ends, grants and reads separately and reserves an eighth of each for operators.
        calls: u64 = Text("262144"), "limits-calls", within "64" to "16777216", like "300000";
        /// Limit unanswered requests per principal
        calls_per_principal: u64 = Text("131072"), "limits-calls-per-principal",
            within "8" to "16777216", like "90000";
        /// Limit the body of one HTTP request
        body_bytes: Bytes = Text("1MiB"), "limits-body-bytes", within "8KiB" to "64MiB", like "32KiB";
        /// Limit all HTTP bodies that are being read; at least twice `body_bytes`
        bodies_bytes: Bytes = Text("64MiB"), "limits-bodies-bytes", within "1MiB" to "64GiB", like "8MiB";
        /// Limit open event streams and mDNS streams over all transports; one principal gets at most half of them
        watches: u64 = Text("1024"), "limits-watches", within "1" to "1000000", like "40";
        /// Limit one line on the socket
        line_bytes: Bytes = Text("64KiB"), "limits-line-bytes", within "8KiB" to "64MiB", like "16KiB";
        /// Close an HTTP connection whose client reads nothing of an answer for this long
        write_timeout: Span = Text("30s"), "limits-write-timeout", within "10ms" to "1h", like "7s";
        /// Close an HTTP connection that is idle for this long
        idle_timeout: Span = Text("150s"), "limits-idle-timeout", within "10ms" to "1h", like "40s";
        /// Delay the reclaim of a revoked lease that has no validity (permanent, connection) by this long
        ///
        /// Such a holder can acknowledge the revoke sooner.
        revoke_timeout: Span = Text("10s"), "limits-revoke-timeout", within "0s" to "1h", like "3s";
    }

    /// Mass-expiry protection: if most holders fall silent at once, the daemon assumes a local fault and pauses expiry.
    breaker: Breaker {
        /// Count holders that fall silent within this window
        window: Span = Text("10s"), "breaker-window", within "100ms" to "1h", like "5s";
        /// Pause expiry if this fraction of all holders falls silent; 1.0 disables the protection
        fraction: f64 = Text("0.5"), "breaker-fraction", within "0.01" to "1.0", like "0.75";
        /// Pause expiry for at most this long
        hold: Span = Text("30s"), "breaker-hold", within "0s" to "1h", like "45s";
    }

    /// Retention of history.
    history: History {
        /// Delete log older than this
        age: Span = Text("7d"), "history-age", within "1m" to "3650d", like "2d";
        /// Keep at most this much log; the daemon never deletes log that recovery needs
        bytes: Bytes = Text("1GiB"), "history-bytes", within "1MiB" to "1PiB", like "2GiB";
        /// Show ended leases for this long
        ended_age: Span = Text("1d"), "history-ended-age", within "1s" to "365d", like "1h";
        /// Show at most this many ended leases
        ended_leases: u64 = Text("1000000"), "history-ended-leases", within "0" to "1000000000", like "5000";
    }

    /// Services advertised by mDNS.
    mdns: MdnsSettings {
        /// Advertise services by mDNS; `--no-mdns` disables it
        ///
        /// Without mDNS the daemon keeps registrations, and browsing shows only its own.
        enabled: bool = Text("true"), "mdns", like "false";
        /// Use this network interface (name or address) [default: all that are up, without loopback]
        interface: Vec<String> = Text(""), "mdns-interface", as "INTERFACE", like "eth0,192.0.2.7";
        /// Use this UDP port; peers must use the same one
        port: u16 = Text("5353"), "mdns-port", within "1" to "65535", like "15353";
        /// Keep a registration for this long after its socket connection broke
        socket_grace: Span = Text("30s"), "mdns-socket-grace", within "0s" to "1h", like "4s";
        /// Keep a registration for this long after its standard input broke
        stdin_grace: Span = Text("5s"), "mdns-stdin-grace", within "0s" to "1h", like "2s";
        /// Keep an HTTP registration for this long after its TTL
        http_grace: Span = Text("30s"), "mdns-http-grace", within "0s" to "1h", like "3s";
        /// Give HTTP registrations that name no TTL this one
        http_lease: Span = Text("90s"), "mdns-http-lease", within "1s" to "1d", like "20s";
    }

    /// Slot sessions (`/api/v3/sessions`): clients that hold slots of a pool while they send heartbeats.
    sessions: SessionSettings {
        /// Expire a slot session this long after its last heartbeat (TTL)
        lease_ttl: Span = Text("60s"), "sessions-lease-ttl", within "1s" to "24h", like "90s";
        /// Request a heartbeat every this many seconds; the TTL must be at least twice as long
        heartbeat_interval: u64 = Text("5"), "sessions-heartbeat-interval", as "SECONDS",
            within "1" to "43200", like "7";
        /// Keep a silent slot session in the state draining for this long after the TTL
        grace: Span = Text("0s"), "sessions-grace", within "0s" to "1h", like "4s";
        /// End a slot session after this long in any case; 0s means unlimited
        max_lifetime: Span = Text("0s"), "sessions-max-lifetime", within "0s" to "365d", like "8h";
        /// Take slots from this pool if a slot session names neither pool nor resource
        default_pool: PoolName = Text("tuner"), "sessions-default-pool", like "gpu";
        /// Create these pools at start if they do not exist; an existing pool keeps its size
        ///
        /// In the file `pools = { tuner = 4, gpu = 2 }`, elsewhere `tuner=4,gpu=2`. An empty value creates none.
        pools: Pools = Text("tuner=4"), "sessions-pools", like "tuner=2,gpu=1";
        /// Limit slot sessions, including those in the queue
        max_sessions: u64 = Text("100000"), "sessions-max-sessions", within "1" to "100000000", like "500";
        /// Call this hook when a slot session ends: a URL (POST) or a command
        ///
        /// A value that begins with `http://` or `https://` is a URL; any other value is a command line, split as a shell
        /// splits it and run without a shell. The daemon repeats the notification until a status from 200 to 299 or exit code
        /// 0 acknowledges it (at least once). An empty value calls no hook.
        on_end: OnEnd = Text(""), "sessions-on-end", like "https://127.0.0.1:3000";
        /// Trust the CAs in this file (PEM) for an `https` hook [default: the system's CAs]
        on_end_ca: Option<PathBuf> = Text(""), "sessions-on-end-ca", as "FILE", like "/srv/ca.pem";
        /// Sign hook requests with the secret in this file (one line, at least 16 characters)
        ///
        /// The header `Tenure-Signature` is `t=SECONDS,v1=HEX`: HMAC-SHA-256 of the seconds, a dot and the body.
        on_end_secret_file: Option<PathBuf> = Text(""), "sessions-on-end-secret-file", as "FILE",
            like "/srv/on-end-secret";
        /// Free the slots of an ended slot session at once, or after the hook
        ///
        /// `after_hook` keeps them until the hook has acknowledged, at most for `hook_timeout`.
        reuse: SlotReuse = Text("at_once"), "sessions-reuse", like "after_hook";
        /// Keep slots for the hook for at most this long if `reuse` is `after_hook`
        hook_timeout: Span = Text("60s"), "sessions-hook-timeout", within "1s" to "24h", like "20s";
        /// Ignored: slot sessions end exactly at their deadline; accepted for old files
        expiry_check_interval: Option<Span> = Text(""), "sessions-expiry-check-interval", like "10s";
    }

    /// Several nodes that share one log in etcd. Without `store` the daemon keeps its own log and runs alone.
    cluster: ClusterSettings {
        /// Keep the log in etcd: `etcd://HOST:PORT[,HOST:PORT]/PREFIX`
        ///
        /// All nodes of a cluster use the same value. An empty value keeps the log in the data directory. `--log` is the
        /// former name of the flag.
        store: StoreAddress = Text(""), "store", like "etcd://127.0.0.1:2379/tenure";
        /// Advertise this URL, at which other nodes reach this node: `http://HOST:PORT` or `https://HOST:PORT`
        advertise: NodeUrl = Text(""), "advertise", like "http://127.0.0.1:5641";
        /// Use this node name, unique in the cluster [default: the machine's name]
        node: NodeName = Text(""), "node", like "east-1";
        /// Elect another leader after the leader was silent for this long
        ///
        /// The value of the present leader is valid for the whole cluster. `writer_ttl` and `--writer-ttl` are the former
        /// names.
        leader_ttl: Span = Text("3s"), "leader-ttl", within "1s" to "30s", like "5s";
        /// Trust the CAs in this file (PEM) for the `https` URLs of other nodes
        ca: Option<PathBuf> = Text(""), "cluster-ca", as "FILE", like "/srv/ca.pem";
        /// Connect to etcd by TLS and trust the CAs in this file (PEM)
        etcd_ca: Option<PathBuf> = Text(""), "etcd-ca", as "FILE", like "/srv/etcd-ca.pem";
        /// Present this client certificate (PEM) to etcd
        etcd_cert: Option<PathBuf> = Text(""), "etcd-cert", as "FILE", like "/srv/etcd.pem";
        /// Use this private key (PEM) for the etcd client certificate
        etcd_key: Option<PathBuf> = Text(""), "etcd-key", as "FILE", like "/srv/etcd-key.pem";
        /// Sign in to etcd as this user
        etcd_user: PlainText = Text(""), "etcd-user", as "USER", like "tenure";
        /// Read the password of the etcd user from this file
        etcd_password_file: Option<PathBuf> = Text(""), "etcd-password-file", as "FILE", like "/srv/etcd-password";
        /// Compact etcd after a trim; `auto` does so if no other program uses this etcd
        compaction: Compaction = Text("auto"), "etcd-compaction", like "operator";
    }

    /// The log on disk, and the daemon's log lines.
    log: Log {
        /// Take a snapshot after this much new log
        ///
        /// If snapshots exceed half of this size, the daemon takes the next one after twice the size of the last.
        snapshot_bytes: Bytes = Text("256MiB"), "log-snapshot-bytes", within "64KiB" to "1TiB", like "1MiB";
        /// Begin a new log file at this size
        segment_bytes: Bytes = Text("64MiB"), "log-segment-bytes", within "64KiB" to "4GiB", like "8MiB";
        /// Reject grants if the disk has less free space than this; releases and renewals continue
        free_bytes: Bytes = Text("192MiB"), "log-free-bytes", within "0B" to "1PiB", like "100MiB";
        /// Move old log into this directory instead of deleting it
        archive: Option<PathBuf> = Text(""), "log-archive", as "DIR", like "/srv/archive";
        /// Write log lines of this level and above; or `module=level`, comma-separated
        level: Filter = Text("info"), "log-level", as "LEVEL", like "debug";
        /// Format log lines as text or JSON; `auto` is text on a terminal and JSON elsewhere
        format: LogFormat = Text("auto"), "log-format", like "json";
    }
}
