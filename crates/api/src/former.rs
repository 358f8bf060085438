//! Fields that are answered under two names: the present one, and the one that 0.1 documented. The former names go with
//! the next minor version. Either name is understood; modules for `#[serde(flatten, with = "…")]`.

/// `application`, formerly `face`.
pub(crate) mod application {
    use crate::lease::Application;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize)]
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
    pub(crate) struct Written {
        /// API that the lease was taken through.
        application: Application,
        /// Former name of `application`, with `streams` for `slots`.
        #[cfg_attr(feature = "schema", schemars(with = "String", extend("deprecated" = true)))]
        face: &'static str,
    }

    #[derive(Deserialize)]
    struct Read {
        application: Option<Application>,
        face: Option<Application>,
    }

    pub(crate) fn serialize<S: Serializer>(application: &Application, to: S) -> Result<S::Ok, S::Error> {
        Written { application: *application, face: application.former() }.serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Application, D::Error> {
        let Read { application, face } = Read::deserialize(from)?;
        application.or(face).ok_or_else(|| serde::de::Error::missing_field("application"))
    }
}

/// The same, where an event does not tell it.
pub(crate) mod maybe_application {
    use crate::lease::Application;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize)]
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
    pub(crate) struct Written {
        /// API that the lease was taken through.
        application: Option<Application>,
        /// Former name of `application`, with `streams` for `slots`.
        #[cfg_attr(feature = "schema", schemars(with = "Option<String>", extend("deprecated" = true)))]
        face: Option<&'static str>,
    }

    #[derive(Deserialize)]
    struct Read {
        application: Option<Application>,
        face: Option<Application>,
    }

    #[expect(clippy::ref_option, reason = "serde passes the field by reference")]
    pub(crate) fn serialize<S: Serializer>(it: &Option<Application>, to: S) -> Result<S::Ok, S::Error> {
        Written { application: *it, face: it.map(Application::former) }.serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Application>, D::Error> {
        let Read { application, face } = Read::deserialize(from)?;
        Ok(application.or(face))
    }
}

/// `leader`, formerly `writer`.
pub(crate) mod leader {
    use crate::cluster::ClusterLeader;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize)]
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
    pub(crate) struct Written<'a> {
        /// The leader; null while this node knows of none.
        leader: Option<&'a ClusterLeader>,
        /// Former name of `leader`.
        #[cfg_attr(feature = "schema", schemars(extend("deprecated" = true)))]
        writer: Option<&'a ClusterLeader>,
    }

    #[derive(Deserialize)]
    struct Read {
        leader: Option<ClusterLeader>,
        writer: Option<ClusterLeader>,
    }

    #[expect(clippy::ref_option, reason = "serde passes the field by reference")]
    pub(crate) fn serialize<S: Serializer>(it: &Option<ClusterLeader>, to: S) -> Result<S::Ok, S::Error> {
        Written { leader: it.as_ref(), writer: it.as_ref() }.serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<ClusterLeader>, D::Error> {
        let Read { leader, writer } = Read::deserialize(from)?;
        Ok(leader.or(writer))
    }
}

/// `leader_ttl_ms`, formerly `writer_ttl_ms`.
pub(crate) mod leader_ttl_ms {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize)]
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
    pub(crate) struct Written {
        /// How long a leader may answer without a new proof from the store; another node waits this long before an
        /// election.
        leader_ttl_ms: u64,
        /// Former name of `leader_ttl_ms`.
        #[cfg_attr(feature = "schema", schemars(extend("deprecated" = true)))]
        writer_ttl_ms: u64,
    }

    #[derive(Deserialize)]
    struct Read {
        leader_ttl_ms: Option<u64>,
        writer_ttl_ms: Option<u64>,
    }

    pub(crate) fn serialize<S: Serializer>(ms: &u64, to: S) -> Result<S::Ok, S::Error> {
        Written { leader_ttl_ms: *ms, writer_ttl_ms: *ms }.serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
        let Read { leader_ttl_ms, writer_ttl_ms } = Read::deserialize(from)?;
        leader_ttl_ms.or(writer_ttl_ms).ok_or_else(|| serde::de::Error::missing_field("leader_ttl_ms"))
    }
}

/// `log_tag`, formerly `tag`.
pub(crate) mod log_tag {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize)]
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
    pub(crate) struct Written<'a> {
        /// First four characters of every lease id.
        log_tag: &'a str,
        /// Former name of `log_tag`.
        #[cfg_attr(feature = "schema", schemars(extend("deprecated" = true)))]
        tag: &'a str,
    }

    #[derive(Deserialize)]
    struct Read {
        log_tag: Option<String>,
        tag: Option<String>,
    }

    pub(crate) fn serialize<S: Serializer>(tag: &str, to: S) -> Result<S::Ok, S::Error> {
        Written { log_tag: tag, tag }.serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
        let Read { log_tag, tag } = Read::deserialize(from)?;
        log_tag.or(tag).ok_or_else(|| serde::de::Error::missing_field("log_tag"))
    }
}

/// `leadership_lease_ms`, formerly `authority_ms`.
pub(crate) mod leadership_lease_ms {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize)]
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
    pub(crate) struct Written {
        /// Time until the leadership lease of this node ends unless it is renewed; null on a follower.
        leadership_lease_ms: Option<u64>,
        /// Former name of `leadership_lease_ms`.
        #[cfg_attr(feature = "schema", schemars(extend("deprecated" = true)))]
        authority_ms: Option<u64>,
    }

    #[derive(Deserialize)]
    struct Read {
        leadership_lease_ms: Option<u64>,
        authority_ms: Option<u64>,
    }

    #[expect(clippy::ref_option, reason = "serde passes the field by reference")]
    pub(crate) fn serialize<S: Serializer>(ms: &Option<u64>, to: S) -> Result<S::Ok, S::Error> {
        Written { leadership_lease_ms: *ms, authority_ms: *ms }.serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
        let Read { leadership_lease_ms, authority_ms } = Read::deserialize(from)?;
        Ok(leadership_lease_ms.or(authority_ms))
    }
}

/// `lines_rejected`, formerly `lines_refused`.
pub(crate) mod lines_rejected {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize)]
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
    pub(crate) struct Written {
        /// Number of lines that the daemon cannot parse.
        lines_rejected: u64,
        /// Former name of `lines_rejected`.
        #[cfg_attr(feature = "schema", schemars(extend("deprecated" = true)))]
        lines_refused: u64,
    }

    #[derive(Deserialize)]
    struct Read {
        lines_rejected: Option<u64>,
        lines_refused: Option<u64>,
    }

    pub(crate) fn serialize<S: Serializer>(lines: &u64, to: S) -> Result<S::Ok, S::Error> {
        Written { lines_rejected: *lines, lines_refused: *lines }.serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
        let Read { lines_rejected, lines_refused } = Read::deserialize(from)?;
        lines_rejected.or(lines_refused).ok_or_else(|| serde::de::Error::missing_field("lines_rejected"))
    }
}
