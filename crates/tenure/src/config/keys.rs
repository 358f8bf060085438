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
                $(within $least:literal to $greatest:literal,)? like $example:literal;
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
                placeholder: <$type as Value>::PLACEHOLDER,
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
    (@range) => { None };
    (@range $least:literal, $greatest:literal) => { Some(($least, $greatest)) };
}

settings! {
    /// Where the daemon listens and keeps its data.
    server: Server {
        /// Address that TCP connections are accepted on
        ///
        /// Any address that other machines can reach needs a token file, a client CA or `--insecure-no-auth`.
        bind: IpAddr = Text("127.0.0.1"), "bind", like "127.0.0.2";
        /// Port for TCP connections; 0 lets the system choose
        port: u16 = Text("5641"), "port", like "7000";
        /// Where the data is: the log and its snapshots
        data_dir: PathBuf = Place(|places| places.data.clone()), "data-dir", like "/srv/tenure";
        /// Where programs on this machine look for the daemon
        ///
        /// `daemon.json` is left here. Empty: it is not left anywhere.
        run_dir: Option<PathBuf> = Place(|places| places.run.clone()), "run-dir", like "/srv/run";
        /// The socket, mode 0660
        ///
        /// Empty: there is none.
        socket: Option<PathBuf> = Place(super::places::Places::socket), "socket", like "/srv/tenure.sock";
        /// PEM file with the daemon's certificate, and those between it and a root
        ///
        /// With it HTTP is spoken over TLS only. The daemon reads this file, the key, the client CA and the revocation lists
        /// again when they change.
        tls_cert: Option<PathBuf> = Text(""), "tls-cert", like "/srv/cert.pem";
        /// PEM file with the certificate's key
        tls_key: Option<PathBuf> = Text(""), "tls-key", like "/srv/key.pem";
        /// PEM file with the roots of certificates that callers must show
        client_ca: Option<PathBuf> = Text(""), "client-ca", like "/srv/ca.pem";
        /// PEM file with revocation lists (CRLs) of the client CA
        ///
        /// With it every issuer of certificates that callers show needs a list in the file.
        client_crl: Option<PathBuf> = Text(""), "client-crl", like "/srv/crl.pem";
        /// Names that callers reach the daemon by, besides its address and those in its certificate: `NAME` or `NAME:PORT`
        ///
        /// A request without a token must be addressed to a name of the daemon. A name without a port counts with every
        /// port. The host in `--advertise` counts too.
        server_name: Vec<String> = Text(""), "server-name", like "lease.example,10.0.0.9:8443";
        /// Origins whose pages may ask, besides the daemon's own: scheme, host and port
        ///
        /// The host of such an origin is also accepted as the name of the daemon, as a proxy in front may send it.
        allow_origin: Vec<String> = Text(""), "allow-origin", like "https://board.example,http://127.0.0.1:3000";
    }

    /// Who may do what.
    auth: Auth {
        /// What programs on this machine may do over TCP without a credential
        ///
        /// Root and the daemon's own user are administrators, as on the socket.
        local: ScopeOrNone = ByUser { root: "hold", others: "admin" }, "auth-local", like "read";
        /// File with tokens; with it TCP always needs one
        ///
        /// Lines `name scope sha256-hex`, kept by `tenure token`; read again when it changes.
        token_file: Option<PathBuf> = Text(""), "token-file", like "/srv/tokens";
        /// What a caller with a certificate of the client CA may do
        ///
        /// Certificates that `cert_scope_file` names have the scope of their line.
        cert_scope: ScopeOrNone = Text("hold"), "auth-cert-scope", like "admin";
        /// File with the scopes of certain certificates
        ///
        /// Lines `subject scope`, such as `CN=ci,O=Example hold:build/*` or `DNS:ci.example read`; read again when it changes.
        cert_scope_file: Option<PathBuf> = Text(""), "auth-cert-scope-file", like "/srv/cert-scopes";
        /// Let everybody who reaches the port do what local programs may
        insecure_no_auth: bool = Text("false"), "insecure-no-auth", like "true";
    }

    /// How much there may be. What is over a limit is refused, never queued without bound.
    limits: Limits {
        /// Live leases in all
        leases: u64 = Text("10000000"), "limits-leases", within "1" to "1000000000", like "1000";
        /// Live leases of one principal
        leases_per_principal: u64 = Text("1000000"), "limits-leases-per-principal",
            within "1" to "1000000000", like "100";
        /// Pools
        pools: u64 = Text("10000"), "limits-pools", within "1" to "10000000", like "20";
        /// Open sessions, connections that hold something included
        sessions: u64 = Text("1000000"), "limits-sessions", within "1" to "100000000", like "500";
        /// Open sessions of one principal
        sessions_per_principal: u64 = Text("500000"), "limits-sessions-per-principal",
            within "1" to "100000000", like "50";
        /// Attachments of all live leases together
        attachment_bytes: Bytes = Text("1GiB"), "limits-attachment-bytes", within "0B" to "1TiB", like "64MiB";
        /// Attachments of all live leases of one principal
        attachment_bytes_per_principal: Bytes = Text("512MiB"), "limits-attachment-bytes-per-principal",
            within "0B" to "1TiB", like "32MiB";
        /// Requests waiting for a bundle, retries of the same request included
        waiters: u64 = Text("100000"), "limits-waiters", within "0" to "10000000", like "50";
        /// Requests of one principal waiting for a bundle
        waiters_per_principal: u64 = Text("50000"), "limits-waiters-per-principal",
            within "0" to "10000000", like "40";
        /// Requests of one connection waiting for a bundle
        waiters_per_connection: u64 = Text("1000"), "limits-waiters-per-connection",
            within "0" to "1000000", like "20";
        /// Open connections over all transports
        ///
        /// An eighth of them, at least 64 and at most half, is kept for the socket. One address has at most half of the
        /// rest, loopback excepted; one user of this machine has at most seven eighths of all, and of the rest, root
        /// excepted.
        connections: u64 = Text("20000"), "limits-connections", within "1" to "1000000", like "300";
        /// Requests of one principal per second, heartbeats not counted; 0: as many as it likes
        requests_per_second: u64 = Text("0"), "limits-requests-per-second", within "0" to "4000000000", like "250";
        /// Requests taken in and not handled yet
        ///
        /// Heartbeats, ends, grants and reads have a quarter each. Of each quarter an eighth is kept for operators, and
        /// another eighth is not for principals that have much unanswered there.
        inbox: u64 = Text("65536"), "limits-inbox", within "64" to "16777216", like "1024";
        /// Requests taken in and not answered yet, waiting ones included; never less than `inbox`
        ///
        /// Heartbeats, ends, grants and reads are counted apart, and an eighth of each is kept for operators.
        calls: u64 = Text("262144"), "limits-calls", within "64" to "16777216", like "300000";
        /// The same of one principal
        calls_per_principal: u64 = Text("131072"), "limits-calls-per-principal",
            within "8" to "16777216", like "90000";
        /// Body of one HTTP request
        body_bytes: Bytes = Text("1MiB"), "limits-body-bytes", within "8KiB" to "64MiB", like "32KiB";
        /// Bodies of HTTP requests that are being read, together; never less than two of the largest
        bodies_bytes: Bytes = Text("64MiB"), "limits-bodies-bytes", within "1MiB" to "64GiB", like "8MiB";
        /// Streams of events and of sightings over all transports; one principal has at most half of them
        watches: u64 = Text("1024"), "limits-watches", within "1" to "1000000", like "40";
        /// One line on the socket
        line_bytes: Bytes = Text("64KiB"), "limits-line-bytes", within "8KiB" to "64MiB", like "16KiB";
        /// How long an HTTP client may read nothing of an answer before its connection is closed
        write_timeout: Span = Text("30s"), "limits-write-timeout", within "10ms" to "1h", like "7s";
        /// How long an HTTP connection may have no request and no progress on an answer before it is closed
        idle_timeout: Span = Text("150s"), "limits-idle-timeout", within "10ms" to "1h", like "40s";
        /// How long reclaim waits for a holder that has no promise to run out to stop
        ///
        /// Holders on an open connection, and those of permanent leases, may acknowledge sooner.
        revoke_timeout: Span = Text("10s"), "limits-revoke-timeout", within "0s" to "1h", like "3s";
    }

    /// When most holders fall silent at once the fault is likelier here: ends are postponed.
    breaker: Breaker {
        /// Silences within this long count together
        window: Span = Text("10s"), "breaker-window", within "100ms" to "1h", like "5s";
        /// Part of the holders that must fall silent; 1.0 switches the breaker off
        fraction: f64 = Text("0.5"), "breaker-fraction", within "0.01" to "1.0", like "0.75";
        /// How long ends are postponed at most
        hold: Span = Text("30s"), "breaker-hold", within "0s" to "1h", like "45s";
    }

    /// How long the past can be asked about.
    history: History {
        /// Age at which log is deleted
        age: Span = Text("7d"), "history-age", within "1m" to "3650d", like "2d";
        /// Log kept at most; what recovery needs is always kept
        bytes: Bytes = Text("1GiB"), "history-bytes", within "1MiB" to "1PiB", like "2GiB";
        /// How long an ended lease can be shown
        ended_age: Span = Text("1d"), "history-ended-age", within "1s" to "365d", like "1h";
        /// Ended leases that can be shown, in all
        ended_leases: u64 = Text("1000000"), "history-ended-leases", within "0" to "1000000000", like "5000";
    }

    /// Services that are advertised on the network.
    mdns: MdnsSettings {
        /// Advertise services by mDNS; `--no-mdns` says not to
        ///
        /// Without it registrations are kept as ever, and browsing shows those of this daemon alone.
        enabled: bool = Text("true"), "mdns", like "false";
        /// Interfaces to use, by name or address; none given: every one that is up but loopback
        interface: Vec<String> = Text(""), "mdns-interface", like "eth0,192.0.2.7";
        /// UDP port; any but 5353 reaches only those who use it too
        port: u16 = Text("5353"), "mdns-port", within "1" to "65535", like "15353";
        /// How long a registrant's lost connection is forgiven
        socket_grace: Span = Text("30s"), "mdns-socket-grace", within "0s" to "1h", like "4s";
        /// The same for one that spoke over a standard input
        stdin_grace: Span = Text("5s"), "mdns-stdin-grace", within "0s" to "1h", like "2s";
        /// How long a missing heartbeat over HTTP is forgiven
        http_grace: Span = Text("30s"), "mdns-http-grace", within "0s" to "1h", like "3s";
        /// How long a registration over HTTP lasts without a heartbeat, unless it says otherwise
        http_lease: Span = Text("90s"), "mdns-http-lease", within "1s" to "1d", like "20s";
    }

    /// Sessions of `/api/v3`: streams that hold slots of a pool for as long as their clients live.
    sessions: SessionSettings {
        /// How long one heartbeat lasts
        lease_ttl: Span = Text("60s"), "sessions-lease-ttl", within "1s" to "24h", like "90s";
        /// Seconds between heartbeats, as clients are told; two must fit into the ttl
        heartbeat_interval: u64 = Text("5"), "sessions-heartbeat-interval", within "1" to "43200", like "7";
        /// How long silence is forgiven after the ttl; meanwhile the session is draining
        grace: Span = Text("0s"), "sessions-grace", within "0s" to "1h", like "4s";
        /// Longest life of a session; 0s: as long as it is heartbeat
        max_lifetime: Span = Text("0s"), "sessions-max-lifetime", within "0s" to "365d", like "8h";
        /// Pool of sessions that name neither pool nor resource
        default_pool: PoolName = Text("tuner"), "sessions-default-pool", like "gpu";
        /// Pools that are made at the start if they are missing; one that is there keeps its size
        ///
        /// In the file `pools = { tuner = 4, gpu = 2 }`, elsewhere `tuner=4,gpu=2`. Empty: none is made.
        pools: Pools = Text("tuner=4"), "sessions-pools", like "tuner=2,gpu=1";
        /// Sessions at once, queued ones included
        max_sessions: u64 = Text("100000"), "sessions-max-sessions", within "1" to "100000000", like "500";
        /// Who is told of each end: a URL that it is posted to, or a command that is run with it
        ///
        /// A URL begins with `http://` or `https://`; anything else is a command line, split as a shell does and run without
        /// one. Told at least once, until a status from 200 to 299 or the exit code 0 acknowledges it. Empty: nobody.
        on_end: OnEnd = Text(""), "sessions-on-end", like "https://127.0.0.1:3000";
        /// PEM file with the authorities to trust for an `on_end` that is an `https` URL; empty: those of the system
        on_end_ca: Option<PathBuf> = Text(""), "sessions-on-end-ca", like "/srv/ca.pem";
        /// File with a secret, one line of at least 16 characters, that signs what is posted to `on_end`
        ///
        /// The header `Tenure-Signature` is `t=SECONDS,v1=HEX`, an HMAC-SHA-256 of the seconds, a dot and the body.
        on_end_secret_file: Option<PathBuf> = Text(""), "sessions-on-end-secret-file", like "/srv/on-end-secret";
        /// When slots of an ended session may be used again
        ///
        /// `after_hook` keeps them until `on_end` has acknowledged, or `hook_timeout` is over.
        reuse: SlotReuse = Text("at_once"), "sessions-reuse", like "after_hook";
        /// How long slots are kept for `on_end` at most, with `reuse` `after_hook`
        hook_timeout: Span = Text("60s"), "sessions-hook-timeout", within "1s" to "24h", like "20s";
        /// Not used: sessions end at their deadline and nobody has to look; accepted for old files
        expiry_check_interval: Option<Span> = Text(""), "sessions-expiry-check-interval", like "10s";
    }

    /// Several machines over one log. Without `store` the daemon has a log of its own and is alone.
    cluster: ClusterSettings {
        /// Where the log is: `etcd://HOST:PORT[,HOST:PORT]/PREFIX`
        ///
        /// Every node of a cluster has the same here. Empty: the log is in the data directory.
        store: StoreAddress = Text(""), "log", like "etcd://127.0.0.1:2379/tenure";
        /// Where other nodes reach this one: `http://HOST:PORT` or `https://HOST:PORT`
        advertise: NodeUrl = Text(""), "advertise", like "http://127.0.0.1:5641";
        /// This node's name, its own in the cluster; empty: the machine's
        node: NodeName = Text(""), "node", like "east-1";
        /// How long the writer may be silent before another node takes its place
        ///
        /// What counts is what the present writer was started with.
        writer_ttl: Span = Text("3s"), "writer-ttl", within "1s" to "30s", like "5s";
        /// PEM file with the roots of the certificates of other nodes, where they are reached by https
        ca: Option<PathBuf> = Text(""), "cluster-ca", like "/srv/ca.pem";
        /// PEM file with the roots of etcd's certificates; with it etcd is spoken to over TLS
        etcd_ca: Option<PathBuf> = Text(""), "etcd-ca", like "/srv/etcd-ca.pem";
        /// PEM file with a certificate to show to etcd
        etcd_cert: Option<PathBuf> = Text(""), "etcd-cert", like "/srv/etcd.pem";
        /// PEM file with that certificate's key
        etcd_key: Option<PathBuf> = Text(""), "etcd-key", like "/srv/etcd-key.pem";
        /// Name of an etcd user; empty: none is needed
        etcd_user: PlainText = Text(""), "etcd-user", like "tenure";
        /// File with that user's password
        etcd_password_file: Option<PathBuf> = Text(""), "etcd-password-file", like "/srv/etcd-password";
        /// Who compacts etcd after a trim; `auto`: this daemon, where it is alone in etcd
        compaction: Compaction = Text("auto"), "etcd-compaction", like "operator";
    }

    /// The log on disk, and log lines for people.
    log: Log {
        /// Bytes of new log after which a snapshot is taken
        ///
        /// Once snapshots are larger than half of this: twice the last snapshot.
        snapshot_bytes: Bytes = Text("256MiB"), "log-snapshot-bytes", within "64KiB" to "1TiB", like "1MiB";
        /// Size of one file of the log
        segment_bytes: Bytes = Text("64MiB"), "log-segment-bytes", within "64KiB" to "4GiB", like "8MiB";
        /// Free space on the disk below which only what frees something is taken
        free_bytes: Bytes = Text("192MiB"), "log-free-bytes", within "0B" to "1PiB", like "100MiB";
        /// Where log that is old enough goes, instead of being deleted
        archive: Option<PathBuf> = Text(""), "log-archive", like "/srv/archive";
        /// Which log lines are written: a level, or `module=level` separated by commas
        level: Filter = Text("info"), "log-level", like "debug";
        /// Form of log lines; `auto` is text on a terminal and JSON elsewhere
        format: LogFormat = Text("auto"), "log-format", like "json";
    }
}
