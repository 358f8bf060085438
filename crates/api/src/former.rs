//! Fields that are answered under two names: the present one, and the one that 0.1 documented. The former names go with
//! the next minor version. Either name is understood; modules for `#[serde(flatten, with = "…")]`.

/// `application`, formerly `face`.
pub(crate) mod application {
    use crate::lease::Application;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize)]
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
    pub(crate) struct Written {
        /// Which application the lease belongs to.
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
        /// Which application the lease belongs to.
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
        /// A leader that was silent for this long is replaced.
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
