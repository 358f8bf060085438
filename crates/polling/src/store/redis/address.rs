//! Where Redis is: one server, one behind Sentinels, or a Cluster. Reads what people write; contacts nobody.

use super::{Impossible, RedisOptions};
use percent_encoding::percent_decode_str;
use redis::cluster::{ClusterClient, ClusterClientBuilder};
use redis::sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType};
use redis::{
    Client, ClientTlsConfig, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo,
    RedisError, TlsCertificates, TlsMode,
};
use std::time::Duration;

/// Default port of Sentinels.
const SENTINEL_PORT: u16 = 26_379;
/// Default port of servers.
const SERVER_PORT: u16 = 6_379;
/// Ours is the limit of a call; the library's only keeps what was given up from staying for ever.
const LIBRARY_LIMIT: Duration = Duration::from_secs(60);

/// Where to connect to.
pub(super) enum Address {
    One(Client),
    Sentinels(Box<tokio::sync::Mutex<SentinelClient>>),
    Cluster { client: Box<ClusterClient>, nodes: Vec<Client> },
}

/// A list of hosts with what goes before and after it.
#[derive(PartialEq, Eq, Debug)]
struct Several {
    user: Option<String>,
    password: Option<String>,
    hosts: Vec<(String, u16)>,
    path: Vec<String>,
    query: Vec<(String, String)>,
}

impl Address {
    /// What the options say, and a short name of it without passwords.
    pub(super) fn read(options: &RedisOptions) -> Result<(Self, String), Impossible> {
        let url = options.url.trim();
        let Some((scheme, rest)) = url.split_once("://") else {
            return Err(Impossible(format!("the address of a Redis must begin with {}", SCHEMES.join(", "))));
        };
        let is_secret = scheme.starts_with("rediss");
        let certificates = certificates(options)?;
        if certificates.is_some() && !is_secret {
            return Err(Impossible(format!("certificates are for rediss://, not for {scheme}://")));
        }
        match scheme {
            "redis" | "rediss" | "unix" | "redis+unix" => one(url, certificates),
            "redis-sentinel" | "rediss-sentinel" => {
                sentinels(&several(rest, SENTINEL_PORT)?, is_secret, certificates)
            }
            "redis-cluster" | "rediss-cluster" => {
                cluster(&several(rest, SERVER_PORT)?, is_secret, certificates)
            }
            other => {
                let known = SCHEMES.join(", ");
                Err(Impossible(format!("{other}:// is not a Redis address: expected {known}")))
            }
        }
    }

    pub(super) fn is_cluster(&self) -> bool {
        matches!(self, Self::Cluster { .. })
    }
}

const SCHEMES: [&str; 8] = [
    "redis://",
    "rediss://",
    "unix://",
    "redis+unix://",
    "redis-sentinel://",
    "rediss-sentinel://",
    "redis-cluster://",
    "rediss-cluster://",
];

fn one(url: &str, certificates: Option<TlsCertificates>) -> Result<(Address, String), Impossible> {
    let info = url.into_connection_info().map_err(unreadable)?;
    if let ConnectionAddr::TcpTls { insecure: true, .. } = info.addr() {
        return Err(Impossible(
            "TLS without verification of the certificate is not supported: name its CA".to_owned(),
        ));
    }
    let name = info.addr().to_string();
    let client = match certificates {
        Some(certificates) => Client::build_with_tls(info, certificates),
        None => Client::open(info),
    };
    Ok((Address::One(client.map_err(unreadable)?), name))
}

fn sentinels(
    several: &Several,
    is_secret: bool,
    certificates: Option<TlsCertificates>,
) -> Result<(Address, String), Impossible> {
    let (service, db) = match several.path.as_slice() {
        [service] => (service, 0),
        [service, db] => {
            (service, db.parse().map_err(|_| Impossible(format!("{db:?} is not a database number")))?)
        }
        _ => {
            return Err(Impossible("redis-sentinel:// is followed by hosts, '/' and the service".to_owned()));
        }
    };
    let hosts = several.hosts.iter().map(|(host, port)| ConnectionAddr::Tcp(host.clone(), *port));
    let mut builder = SentinelClientBuilder::new(hosts, service, SentinelServerType::Master)
        .map_err(unreadable)?
        .set_client_to_redis_db(db);
    if is_secret {
        builder = builder
            .set_client_to_redis_tls_mode(TlsMode::Secure)
            .set_client_to_sentinel_tls_mode(TlsMode::Secure);
    }
    if let Some(certificates) = certificates {
        builder = builder
            .set_client_to_redis_certificates(certificates.clone())
            .set_client_to_sentinel_certificates(certificates);
    }
    if let Some(user) = &several.user {
        builder = builder.set_client_to_redis_username(user);
    }
    if let Some(password) = &several.password {
        builder = builder.set_client_to_redis_password(password);
    }
    for (key, value) in &several.query {
        builder = match key.as_str() {
            "sentinel_user" => builder.set_client_to_sentinel_username(value),
            "sentinel_password" => builder.set_client_to_sentinel_password(value),
            other => return Err(Impossible(format!("redis-sentinel:// has no parameter {other:?}"))),
        };
    }
    let client = builder.build().map_err(unreadable)?;
    let name = format!("{service} by {}", names(&several.hosts));
    Ok((Address::Sentinels(Box::new(tokio::sync::Mutex::new(client))), name))
}

fn cluster(
    several: &Several,
    is_secret: bool,
    certificates: Option<TlsCertificates>,
) -> Result<(Address, String), Impossible> {
    if !several.path.is_empty() || !several.query.is_empty() {
        return Err(Impossible("redis-cluster:// is followed by hosts and nothing else".to_owned()));
    }
    let mut nodes = Vec::new();
    for (host, port) in &several.hosts {
        let addr = match is_secret {
            true => {
                ConnectionAddr::TcpTls { host: host.clone(), port: *port, insecure: false, tls_params: None }
            }
            false => ConnectionAddr::Tcp(host.clone(), *port),
        };
        let mut settings = RedisConnectionInfo::default();
        if let Some(user) = &several.user {
            settings = settings.set_username(user);
        }
        if let Some(password) = &several.password {
            settings = settings.set_password(password);
        }
        nodes.push(addr.into_connection_info().map_err(unreadable)?.set_redis_settings(settings));
    }
    let mut builder = ClusterClientBuilder::new(nodes.clone())
        .retries(3)
        .connection_timeout(LIBRARY_LIMIT)
        .response_timeout(LIBRARY_LIMIT);
    if let Some(certificates) = &certificates {
        builder = builder.certs(certificates.clone());
    }
    let open = |info: ConnectionInfo| match &certificates {
        Some(certificates) => Client::build_with_tls(info, certificates.clone()),
        None => Client::open(info),
    };
    let nodes = nodes.into_iter().map(open).collect::<Result<_, _>>().map_err(unreadable)?;
    let client = Box::new(builder.build().map_err(unreadable)?);
    Ok((Address::Cluster { client, nodes }, format!("cluster of {}", names(&several.hosts))))
}

fn certificates(options: &RedisOptions) -> Result<Option<TlsCertificates>, Impossible> {
    let client_tls = match (&options.client_cert_pem, &options.client_key_pem) {
        (Some(cert), Some(key)) => {
            Some(ClientTlsConfig { client_cert: cert.clone(), client_key: key.clone() })
        }
        (None, None) => None,
        _ => return Err(Impossible("a client's certificate and its key come together".to_owned())),
    };
    // Without this, a file of something else would be a list of nobody.
    let is_certificate = |pem: &Vec<u8>| String::from_utf8_lossy(pem).contains("-----BEGIN CERTIFICATE-----");
    if options.ca_pem.as_ref().is_some_and(|pem| !is_certificate(pem)) {
        return Err(Impossible("the CA file has no certificate in PEM format".to_owned()));
    }
    if client_tls.is_none() && options.ca_pem.is_none() {
        return Ok(None);
    }
    Ok(Some(TlsCertificates { client_tls, root_cert: options.ca_pem.clone() }))
}

/// `[user[:password]@]host[:port][,host[:port]]…[/part[/part]][?key=value&…]`
fn several(rest: &str, port: u16) -> Result<Several, Impossible> {
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (credentials, hosts) = authority.rsplit_once('@').map_or((None, authority), |(c, h)| (Some(c), h));
    let (user, password) = credentials.map_or((None, None), |credentials| {
        let (user, password) = credentials.split_once(':').map_or((credentials, None), |(u, p)| (u, Some(p)));
        (Some(user).filter(|user| !user.is_empty()), password)
    });
    let hosts = hosts.split(',').map(|host| one_host(host, port)).collect::<Result<_, _>>()?;
    let query = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        Ok((decoded(key)?, decoded(value)?))
    });
    Ok(Several {
        user: user.map(decoded).transpose()?,
        password: password.map(decoded).transpose()?,
        hosts,
        path: path.split('/').filter(|part| !part.is_empty()).map(decoded).collect::<Result<_, _>>()?,
        query: query.collect::<Result<_, _>>()?,
    })
}

fn one_host(text: &str, default: u16) -> Result<(String, u16), Impossible> {
    let wrong = || Impossible(format!("{text:?} is not a host and port"));
    let (host, port) = match text.strip_prefix('[') {
        Some(inner) => {
            let (host, port) = inner.split_once(']').ok_or_else(wrong)?;
            let port = if port.is_empty() { None } else { Some(port.strip_prefix(':').ok_or_else(wrong)?) };
            (host, port)
        }
        None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    let port = port.map_or(Ok(default), |port| port.parse().map_err(|_| wrong()))?;
    if host.is_empty() { Err(wrong()) } else { Ok((host.to_owned(), port)) }
}

fn decoded(text: &str) -> Result<String, Impossible> {
    let decoded = percent_decode_str(text).decode_utf8();
    decoded.map(|text| text.into_owned()).map_err(|_| Impossible("the address is not UTF-8".to_owned()))
}

fn names(hosts: &[(String, u16)]) -> String {
    hosts.iter().map(|(host, port)| format!("{host}:{port}")).collect::<Vec<_>>().join(",")
}

/// Without the address, which may have a password in it.
fn unreadable(error: RedisError) -> Impossible {
    Impossible(format!("the address of the Redis cannot be used: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> Result<(Address, String), Impossible> {
        Address::read(&RedisOptions::new(url))
    }

    #[test]
    fn one_server_is_known_by_its_address_without_the_password() {
        for (url, name) in [
            ("redis://127.0.0.1", "127.0.0.1:6379"),
            ("redis://ann:secret@h:1234/2", "h:1234"),
            ("rediss://h:1234", "h:1234"),
            ("redis+unix:///run/redis.sock?db=1&user=ann&pass=secret", "/run/redis.sock"),
            ("unix:///run/redis.sock", "/run/redis.sock"),
        ] {
            let (address, shown) = read(url).expect(url);
            assert_eq!(shown, name);
            assert!(matches!(address, Address::One(_)), "{url}");
        }
    }

    #[test]
    fn sentinels_and_clusters_are_lists_of_hosts() {
        let (address, name) = read("redis-sentinel://ann:s%40crt@a,b:1,[::1]:2/main/3").expect("sentinels");
        assert!(matches!(address, Address::Sentinels(_)));
        assert_eq!(name, "main by a:26379,b:1,::1:2");
        let (address, name) = read("rediss-cluster://:secret@a:7000,b").expect("a cluster");
        assert!(address.is_cluster());
        assert_eq!(name, "cluster of a:7000,b:6379");
        let read = several("ann:s%40crt@a/main/3?sentinel_user=x", 1).expect("a list");
        assert_eq!(read.password.as_deref(), Some("s@crt"));
        assert_eq!(read.path, ["main", "3"]);
        assert_eq!(read.query, [("sentinel_user".to_owned(), "x".to_owned())]);
    }

    #[test]
    fn anything_else_is_refused_without_telling_the_password() {
        for url in [
            "",
            "localhost:6379",
            "http://ann:secret@h",
            "redis://ann:secret@h/x",
            "redis-sentinel://ann:secret@h",
            "redis-sentinel://ann:secret@h/main/x",
            "redis-sentinel://ann:secret@h/main?secret=1",
            "redis-cluster://ann:secret@h/1",
            "redis-cluster://ann:secret@h:port",
            "redis-cluster://",
            "rediss://ann:secret@h/#insecure",
        ] {
            let Err(error) = read(url) else { panic!("{url} was taken") };
            assert!(!error.0.contains("ann:"), "{}", error.0);
        }
    }

    #[test]
    fn certificates_come_whole_and_only_with_tls() {
        let pem = "-----BEGIN CERTIFICATE-----\nTUlJ\n-----END CERTIFICATE-----\n";
        for (url, pem) in [("redis://h", pem), ("rediss://h", "no certificate"), ("rediss://h", pem)] {
            let options = RedisOptions { ca_pem: Some(pem.as_bytes().to_vec()), ..RedisOptions::new(url) };
            assert!(Address::read(&options).is_err(), "{url} {pem}");
        }
        let half = RedisOptions { client_key_pem: Some(b"x".to_vec()), ..RedisOptions::new("rediss://h") };
        assert!(Address::read(&half).is_err());
    }
}
