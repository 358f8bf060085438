//! Settings as the parts of the daemon take them.

use std::fs::Metadata;
use std::io::{self, Read as _};
use std::path::Path;
use std::time::Duration;

use tenure_cluster::etcd::{EtcdOptions, EtcdTls};
use tenure_cluster::growth;
use tenure_engine::host::HostOptions;
use tenure_engine::{EngineConfig, UpkeepOptions};
use tenure_faces::{RegistrationOptions, Reuse, StreamOptions};
use tenure_kernel::{Limits, Retention};
use tenure_liveness::{BreakerConfig, LivenessConfig};
use tenure_server::{AuthSettings, Owner, Timeouts, Tls, TlsFiles, open_guarded, warn_if_readable};

use super::Settings;
use super::value::{Compaction, EtcdAddress, LogFormat, SlotReuse};
use crate::daemon::{ClusterPlan, HookPlan, NetworkPlan};
use crate::duration::Span;
use crate::failure::Words;
use crate::machine;

impl Settings {
    /// For the engine.
    pub(crate) fn engine_config(&self) -> EngineConfig {
        let defaults = EngineConfig::default();
        EngineConfig {
            inbox_max: self.limits.inbox as usize,
            waiters_max: self.limits.waiters as usize,
            waiters_per_principal_max: self.limits.waiters_per_principal as usize,
            hook_timeout_ms: self.sessions.hook_timeout.ms(),
            limits: Limits {
                leases_max: self.limits.leases,
                leases_per_principal_max: self.limits.leases_per_principal,
                pools_max: self.limits.pools,
                sessions_max: self.limits.sessions,
                sessions_per_principal_max: self.limits.sessions_per_principal,
                attachment_bytes_max: self.limits.attachment_bytes.0,
                attachment_bytes_per_principal_max: self.limits.attachment_bytes_per_principal.0,
                ..defaults.limits
            },
            retention: Retention {
                window_ms: self.history.ended_age.ms(),
                leases_max: self.history.ended_leases,
                leases_per_face_max: self.history.ended_leases,
                ..defaults.retention
            },
            liveness: LivenessConfig {
                revoke_timeout_ms: self.limits.revoke_timeout.ms(),
                breaker: BreakerConfig {
                    window_ms: self.breaker.window.ms(),
                    fraction: self.breaker.fraction,
                    hold_ms: self.breaker.hold.ms(),
                    ..defaults.liveness.breaker
                },
                ..defaults.liveness
            },
            ..defaults
        }
    }

    /// For the host.
    pub(crate) fn host_options(&self) -> HostOptions {
        HostOptions {
            upkeep: UpkeepOptions {
                snapshot_bytes_min: self.log.snapshot_bytes.0,
                history_bytes_max: self.history.bytes.0,
                history_age_max: Duration::from_millis(self.history.age.ms()),
            },
            // Whatever fits into the inbox may be under way.
            outstanding_max: self.limits.calls.max(self.limits.inbox) as usize,
            outstanding_per_principal_max: self.limits.calls_per_principal as usize,
        }
    }

    /// How long HTTP connections may do nothing.
    pub(crate) fn timeouts(&self) -> Timeouts {
        let of = |span: Span| Duration::from_millis(span.ms());
        Timeouts { write: of(self.limits.write_timeout), idle: of(self.limits.idle_timeout) }
    }

    /// What services are advertised on.
    pub(crate) fn network_plan(&self) -> NetworkPlan {
        if !self.mdns.enabled {
            return NetworkPlan::Quiet;
        }
        let interfaces = self.mdns.interface.iter().map(|text| match text.parse() {
            Ok(interface) => interface,
            Err(never) => match never {},
        });
        NetworkPlan::Mdns(tenure_mdns::Options { interfaces: interfaces.collect(), port: self.mdns.port })
    }

    /// What keeps registrations.
    pub(crate) fn registration_options(&self) -> RegistrationOptions {
        RegistrationOptions {
            socket_grace_ms: ms(self.mdns.socket_grace),
            stdin_grace_ms: ms(self.mdns.stdin_grace),
            http_grace_ms: ms(self.mdns.http_grace),
            http_lease_ms: ms(self.mdns.http_lease),
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        }
    }

    /// What keeps sessions. Who is told of their ends is not among it: that is [`Settings::hook_plan`].
    pub(crate) fn stream_options(&self) -> StreamOptions {
        let sessions = &self.sessions;
        StreamOptions {
            lease_ttl_ms: ms(sessions.lease_ttl),
            heartbeat_interval_secs: sessions.heartbeat_interval,
            grace_ms: ms(sessions.grace),
            max_lifetime_ms: sessions.max_lifetime.ms(),
            default_pool: sessions.default_pool.0.clone(),
            pools: sessions.pools.0.clone(),
            max_sessions: sessions.max_sessions,
            reuse: match sessions.reuse {
                SlotReuse::AtOnce => Reuse::AtOnce,
                SlotReuse::AfterHook => Reuse::AfterHook,
            },
            on_end: None,
        }
    }

    /// What makes this daemon a node; `None`: it is alone.
    pub(crate) fn cluster_plan(&self) -> Result<Option<ClusterPlan>, Words> {
        let cluster = &self.cluster;
        let Some(address) = &cluster.store.0 else { return Ok(None) };
        if cluster.advertise.0.is_empty() {
            let words =
                Words::new("--store requires --advertise, the URL at which other nodes reach this node");
            return Err(words.hint("for example --advertise http://10.0.0.1:5641"));
        }
        if cluster.advertise.0.starts_with("https:") && cluster.ca.is_none() {
            let words = Words::new("an https URL in --advertise requires --cluster-ca");
            return Err(words.hint("name the PEM file with the CAs that signed the nodes' certificates"));
        }
        let node = self.node_name();
        Ok(Some(ClusterPlan {
            address: address.text(),
            etcd: self.etcd_options(address)?,
            prefix: address.prefix.clone(),
            node,
            advertise: cluster.advertise.0.clone(),
            writer_ttl_ms: cluster.leader_ttl.ms(),
            ca_pem: cluster.ca.as_deref().map(read).transpose()?,
            own_pem: match (&self.server.tls_cert, &self.server.tls_key) {
                (Some(certificate), Some(key)) => Some((read(certificate)?, read(key)?)),
                (None, _) | (_, None) => None,
            },
            compaction: match cluster.compaction {
                Compaction::Auto => growth::Compaction::WhileAlone,
                Compaction::Ourselves => growth::Compaction::Always,
                Compaction::Operator => growth::Compaction::Never,
            },
        }))
    }

    fn node_name(&self) -> String {
        match self.cluster.node.0.as_str() {
            "" => rustix::system::uname().nodename().to_string_lossy().into_owned(),
            named => named.to_owned(),
        }
    }

    /// How the etcd at an address is reached.
    pub(crate) fn etcd_options(&self, address: &EtcdAddress) -> Result<EtcdOptions, Words> {
        let cluster = &self.cluster;
        let tls = match &cluster.etcd_ca {
            None => None,
            Some(ca) => Some(EtcdTls {
                ca_pem: read(ca)?,
                identity: match (&cluster.etcd_cert, &cluster.etcd_key) {
                    (Some(cert), Some(key)) => Some((read(cert)?, read_secret(key)?)),
                    (None, None) => None,
                    (Some(_), None) | (None, Some(_)) => {
                        return Err(Words::new("--etcd-cert and --etcd-key require each other; give both"));
                    }
                },
                domain: None,
            }),
        };
        let user = match (cluster.etcd_user.0.as_str(), &cluster.etcd_password_file) {
            ("", None) => None,
            ("", Some(_)) => return Err(Words::new("--etcd-password-file requires --etcd-user")),
            (_, None) => return Err(Words::new("--etcd-user requires --etcd-password-file")),
            (user, Some(file)) => Some((user.to_owned(), read_secret(file)?.trim_end().to_owned())),
        };
        if user.is_some() && tls.is_none() && !address.is_on_this_machine() {
            let words =
                Words::new("--etcd-user without TLS would send the password over the network unencrypted");
            return Err(words.hint("name the CA of etcd's certificate with --etcd-ca"));
        }
        Ok(EtcdOptions { endpoints: address.endpoints.clone(), tls, user })
    }

    /// What `on_end` and its files say.
    pub(crate) fn hook_plan(&self) -> HookPlan {
        let sessions = &self.sessions;
        HookPlan::of(&sessions.on_end.0)
            .expect("invariant: it was checked when it was read")
            .with_files(sessions.on_end_ca.clone(), sessions.on_end_secret_file.clone())
    }

    /// The files of TLS; `None`: HTTP is spoken in the clear.
    pub(crate) fn tls_files(&self) -> Option<TlsFiles> {
        Some(TlsFiles {
            certificate: self.server.tls_cert.clone()?,
            key: self.server.tls_key.clone()?,
            client_ca: self.server.client_ca.clone(),
            client_crl: self.server.client_crl.clone(),
        })
    }

    /// Names of the daemon in the settings. Other nodes reach it by the one that it advertises.
    fn server_names(&self) -> Vec<String> {
        let advertised =
            self.cluster.advertise.0.split_once("://").map(|(_, host)| host.trim_end_matches('/'));
        self.server.server_name.iter().cloned().chain(advertised.map(str::to_owned)).collect()
    }

    /// Who may do what. `tls` was opened from [`Settings::tls_files`].
    pub(crate) fn auth_settings(&self, tls: Option<&Tls>) -> AuthSettings {
        AuthSettings {
            bind: self.server.bind,
            local: self.auth.local.0,
            token_file: self.auth.token_file.clone(),
            insecure_no_auth: self.auth.insecure_no_auth,
            tls: tls.is_some(),
            client_certificates: self.server.client_ca.is_some(),
            certificate_scope: self.auth.cert_scope.0,
            certificate_scope_file: self.auth.cert_scope_file.clone(),
            certified_names: tls.map(|tls| tls.names().clone()).unwrap_or_default(),
            server_names: self.server_names(),
            allow_origin: self.server.allow_origin.clone(),
            requests_per_second: self.limits.requests_per_second,
            machine: self.cluster.store.0.as_ref().map(|_| machine::name(&self.node_name())),
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
        }
    }

    /// Whether log lines are JSON; `None`: it depends on where they go.
    pub(crate) fn json_log(&self) -> Option<bool> {
        match self.log.format {
            LogFormat::Auto => None,
            LogFormat::Text => Some(false),
            LogFormat::Json => Some(true),
        }
    }
}

fn ms(span: Span) -> u32 {
    u32::try_from(span.ms()).unwrap_or(u32::MAX)
}

fn read(path: &Path) -> Result<String, Words> {
    read_guarded(path).map(|(text, _)| text)
}

fn read_secret(path: &Path) -> Result<String, Words> {
    let (text, found) = read_guarded(path)?;
    warn_if_readable(path, &found);
    Ok(text)
}

fn read_guarded(path: &Path) -> Result<(String, Metadata), Words> {
    let unreadable = |error: io::Error| Words::new(format!("cannot read {}: {error}", path.display()));
    let (mut file, found) = open_guarded(path, Owner::Any).map_err(unreadable)?;
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(unreadable)?;
    Ok((text, found))
}
