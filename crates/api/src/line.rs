//! One JSON object per line, over the socket and standard input: exactly one verb key and an optional `tag`.
//!
//! A line is parsed in one pass over the bytes: the verb decides the type of its body, before or after the tag.

mod quick;

use crate::error::{Error, Lost};
use crate::event::{Event, EventsQuery, Lagged};
use crate::lease::{Acquire, Amend, HolderCall, Lease, LeaseList, LeaseQuery, OperatorCall, Renewed};
use crate::pool::{Pool, PoolList};
use crate::registration::{DiscoveryEvent, Register, Registration, RegistrationRenewed, ServiceRecord};
use crate::resource::{Check, CheckAnswer};
use crate::status::Status;
use crate::story::{Story, WhyQuery};
use core::fmt;
use core::marker::PhantomData;
use serde::de::value::{CowStrDeserializer, MapAccessDeserializer};
use serde::de::{
    DeserializeOwned, DeserializeSeed, Error as _, IgnoredAny, IntoDeserializer, MapAccess, Visitor,
};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// Value that a caller puts beside its verb, so that it recognises the answer.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize)]
#[serde(untagged)]
pub enum Tag {
    /// A number.
    Number(serde_json::Number),
    /// A text.
    Text(String),
}

/// A request line.
#[derive(Clone, PartialEq, Debug)]
pub struct Line {
    /// The request.
    pub verb: Verb,
    /// Value that the answer repeats.
    pub tag: Option<Tag>,
}

/// A body with the id of its lease.
#[derive(Clone, PartialEq, Debug)]
pub struct ByLease<T> {
    /// Id of the lease.
    pub lease_id: String,
    /// Body of the same operation over HTTP.
    pub body: T,
}

/// First line of a program on the socket.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hello {
    /// `cli` if the program acts for a standard input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
}

/// Answer to `hello`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Welcome {
    /// Id of the session of this connection.
    pub session: String,
    /// Version of the daemon.
    pub version: String,
}

/// Request about pools: without a name it lists all pools, with a size it creates or resizes one, with `remove` it
/// removes one.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolVerb {
    /// Name of the pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// New size of the pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u32>,
    /// Remove the pool.
    #[serde(default)]
    pub remove: bool,
    /// Remove the pool even if leases hold members of it.
    #[serde(default)]
    pub force: bool,
    /// Idempotency key: a retry with the same key has no second effect. At most 128 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation_id: Option<String>,
}

/// An empty body.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

macro_rules! verbs {
    ($($(#[doc = $doc:literal])+ $variant:ident($body:ty) = $wire:literal;)+) => {
        /// Verb of a request line with its body.
        #[derive(Clone, PartialEq, Debug)]
        pub enum Verb {
            $($(#[doc = $doc])+ $variant($body),)+
        }

        impl Verb {
            /// Wire names of all verbs.
            pub const WIRE: &[&str] = &[$($wire,)+];

            /// Wire name.
            #[must_use]
            pub fn wire(&self) -> &'static str {
                match self { $(Self::$variant(_) => $wire,)+ }
            }

            fn read<'de, A: MapAccess<'de>>(wire: &str, from: &mut A) -> Result<Option<Self>, A::Error> {
                Ok(match wire { $($wire => Some(Self::$variant(from.next_value_seed(Body(PhantomData))?)),)+ _ => None })
            }
        }

        impl Serialize for Line {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut map = serializer.serialize_map(None)?;
                match &self.verb { $(Verb::$variant(body) => map.serialize_entry($wire, body)?,)+ }
                if let Some(tag) = &self.tag {
                    map.serialize_entry("tag", tag)?;
                }
                map.end()
            }
        }
    };
}

verbs! {
    /// Names the kind of caller and returns the id of the session.
    Hello(Hello) = "hello";
    /// Takes one or several resources.
    Acquire(Box<Acquire>) = "acquire";
    /// Activates a reserved lease.
    Activate(ByLease<HolderCall>) = "activate";
    /// Renews a lease or a registration.
    Heartbeat(Heartbeat) = "heartbeat";
    /// Releases a lease.
    Release(ByLease<HolderCall>) = "release";
    /// Confirms that the holder of a revoked lease has stopped.
    Acknowledge(ByLease<HolderCall>) = "acknowledge";
    /// Replaces the attachment.
    Amend(ByLease<Amend>) = "amend";
    /// Binds a draining lease to this connection.
    Resume(ByLease<HolderCall>) = "resume";
    /// Shows a lease.
    Inspect(ByLease<Nothing>) = "inspect";
    /// Lists leases.
    List(LeaseQuery) = "list";
    /// Checks whether a fencing token or an epoch is current.
    Check(Check) = "check";
    /// Explains what happened to a lease, a resource or a session.
    Why(WhyQuery) = "why";
    /// Follows events.
    Watch(EventsQuery) = "watch";
    /// Shows the status of the daemon.
    Status(Nothing) = "status";
    /// Lists, creates, resizes or removes pools.
    Pool(PoolVerb) = "pool";
    /// Drains a lease: it ends after its grace unless it is revived.
    Drain(ByLease<OperatorCall>) = "drain";
    /// Withdraws a drain.
    Revive(ByLease<OperatorCall>) = "revive";
    /// Revokes a lease.
    Revoke(ByLease<OperatorCall>) = "revoke";
    /// Frees the resources of a revoked lease.
    Reclaim(ByLease<OperatorCall>) = "reclaim";
    /// Advertises a service.
    Register(Box<Register>) = "register";
    /// Ends a registration.
    Unregister(Unregister) = "unregister";
    /// Follows the services of a type.
    Browse(String) = "browse";
    /// Follows all events about services of a type.
    Subscribe(String) = "subscribe";
    /// Resolves a service to its addresses.
    Resolve(String) = "resolve";
    /// Ends the stream with this tag.
    Stop(Tag) = "stop";
    /// Reports that the program behind this connection has stopped: it uses none of its leases any more.
    Bye(Nothing) = "bye";
}

/// Registration to end.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields, expecting = "the id of a registration, or an object with `id`")]
pub enum Unregister {
    /// The id alone.
    Id(String),
    /// An object with the id.
    Under {
        /// Id of the registration.
        id: String,
        /// Idempotency key: a retry with the same key has no second effect. At most 128 bytes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        operation_id: Option<String>,
    },
}

/// Heartbeat of a lease, or of a registration by its id alone.
#[derive(Clone, PartialEq, Debug)]
pub enum Heartbeat {
    /// Of a lease.
    Lease(ByLease<HolderCall>),
    /// Of a registration.
    Registration(String),
}

macro_rules! answers {
    ($($(#[doc = $doc:literal])+ $variant:ident($body:ty) = $wire:literal;)+) => {
        /// Answer or message of the daemon with its body.
        #[derive(Clone, PartialEq, Debug)]
        pub enum Answer {
            $($(#[doc = $doc])+ $variant($body),)+
            /// To `heartbeat` of a registration.
            RegistrationRenewed(RegistrationRenewed),
            /// Of a `browse` or `subscribe`.
            Discovery(DiscoveryEvent),
            /// The request was not carried out.
            Error(Error),
        }

        impl Answer {
            fn read<'de, A: MapAccess<'de>>(wire: &str, from: &mut A) -> Result<Option<Self>, A::Error> {
                Ok(match wire { $($wire => Some(Self::$variant(from.next_value()?)),)+ _ => None })
            }
        }

        impl Serialize for AnswerLine {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let tag = self.tag.as_ref();
                match &self.answer {
                    $(Answer::$variant(body) => {
                        let mut map = serializer.serialize_map(None)?;
                        map.serialize_entry($wire, body)?;
                        if let Some(tag) = tag {
                            map.serialize_entry("tag", tag)?;
                        }
                        map.end()
                    })+
                    Answer::RegistrationRenewed(body) => Whole { body, tag }.serialize(serializer),
                    Answer::Discovery(body) => Whole { body, tag }.serialize(serializer),
                    Answer::Error(body) => Whole { body, tag }.serialize(serializer),
                }
            }
        }
    };
}

/// An answer whose fields stand beside the tag, under no key of their own.
#[derive(Serialize)]
struct Whole<'a, T> {
    #[serde(flatten)]
    body: &'a T,
    #[serde(skip_serializing_if = "Option::is_none")]
    tag: Option<&'a Tag>,
}

/// Words that two kinds of answer begin with are told apart by what follows.
#[derive(Deserialize)]
#[serde(untagged)]
enum Or<T> {
    /// A registration's id, or a word.
    Word(String),
    /// A body.
    Body(T),
}

/// A line that the daemon sends: an answer, or a message without a request.
#[derive(Clone, PartialEq, Debug)]
pub struct AnswerLine {
    /// The answer or message.
    pub answer: Answer,
    /// Tag of the request line.
    pub tag: Option<Tag>,
}

answers! {
    /// Answer to `hello`.
    Hello(Welcome) = "hello";
    /// Answer to `acquire`.
    Acquired(Box<Lease>) = "acquired";
    /// Answer to `activate`.
    Activated(Box<Lease>) = "activated";
    /// Answer to `heartbeat`.
    Renewed(Renewed) = "renewed";
    /// Answer to `release`.
    Released(Box<Lease>) = "released";
    /// Answer to `acknowledge`.
    Acknowledged(Box<Lease>) = "acknowledged";
    /// Answer to `amend`.
    Amended(Box<Lease>) = "amended";
    /// Answer to `resume`.
    Resumed(Box<Lease>) = "resumed";
    /// Answer to `inspect`.
    Lease(Box<Lease>) = "lease";
    /// Answer to `list`.
    Leases(LeaseList) = "leases";
    /// Answer to `check`.
    Checked(CheckAnswer) = "checked";
    /// Answer to `why`.
    Why(Story) = "why";
    /// Event of a `watch`.
    Event(Box<Event>) = "event";
    /// A `watch` was too slow and ended.
    Lagged(Lagged) = "lagged";
    /// Answer to `status`.
    Status(Box<Status>) = "status";
    /// Answer to `pool` with a name.
    Pool(Pool) = "pool";
    /// Answer to `pool` without a name.
    Pools(PoolList) = "pools";
    /// Answer to `drain`.
    Drained(Box<Lease>) = "drained";
    /// Answer to `revive`.
    Revived(Box<Lease>) = "revived";
    /// Answer to `revoke`.
    Revoked(Box<Lease>) = "revoked";
    /// Answer to `reclaim`.
    Reclaimed(Box<Lease>) = "reclaimed";
    /// Answer to `register`.
    Registered(Registration) = "registered";
    /// Answer to `unregister`.
    Unregistered(String) = "unregistered";
    /// Service that a `browse` found.
    Found(ServiceRecord) = "found";
    /// Answer to `resolve`.
    Resolved(ServiceRecord) = "resolved";
    /// Answer to `stop`.
    Stopped(Tag) = "stopped";
    /// Answer to `bye`.
    Bye(Nothing) = "bye";
    /// Message without a request: the holder on this connection lost a lease.
    Lost(Lost) = "lost";
}

/// Why the daemon cannot parse a line.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct LineError {
    /// Syntax error, or wrong field.
    pub error: serde_json::Error,
    /// The line is JSON with one known verb, and its body is wrong.
    pub in_body: bool,
    /// The tag, if the daemon could read one.
    pub tag: Option<Tag>,
}

impl Line {
    /// Reads one line.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn parse(bytes: &[u8]) -> Result<Self, LineError> {
        // Text that is known to be text is not looked at again word by word.
        let read = match str::from_utf8(bytes) {
            Ok(text) => serde_json::from_str(text),
            Err(_) => serde_json::from_slice(bytes),
        };
        read.map_err(|error| {
            let fields = serde_json::from_slice::<Map<String, Value>>(bytes).unwrap_or_default();
            let verbs = fields.keys().filter(|key| *key != "tag").count();
            let known = fields.keys().any(|key| Verb::WIRE.contains(&key.as_str()));
            let tag = fields.get("tag").and_then(|tag| Tag::deserialize(tag).ok());
            LineError { error, in_body: verbs == 1 && known, tag }
        })
    }
}

impl Tag {
    /// A numeric tag.
    #[must_use]
    pub fn number(number: u64) -> Self {
        Self::Number(number.into())
    }
}

/// A key, borrowed from the line unless something in it is escaped.
#[derive(Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

/// A body as it is asked: never a list, whose fields would be guessed from their order.
struct Body<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> DeserializeSeed<'de> for Body<T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for Body<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object, a text or a number")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map))
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
        T::deserialize(text.into_deserializer())
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<T, E> {
        T::deserialize(number.into_deserializer())
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<T, E> {
        T::deserialize(number.into_deserializer())
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<T, E> {
        T::deserialize(number.into_deserializer())
    }
}

struct TagVisitor;

impl Visitor<'_> for TagVisitor {
    type Value = Tag;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a tag that is a number or a text")
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Tag, E> {
        Ok(Tag::Number(number.into()))
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Tag, E> {
        Ok(Tag::Number(number.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Tag, E> {
        serde_json::Number::from_f64(number)
            .map(Tag::Number)
            .ok_or_else(|| E::custom("a tag is a finite number or a text"))
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Tag, E> {
        Ok(Tag::Text(text.to_owned()))
    }

    fn visit_string<E: serde::de::Error>(self, text: String) -> Result<Tag, E> {
        Ok(Tag::Text(text))
    }
}

impl<'de> Deserialize<'de> for Tag {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TagVisitor)
    }
}

struct LineVisitor;

impl<'de> Visitor<'de> for LineVisitor {
    type Value = Line;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with exactly one verb")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Line, A::Error> {
        let (mut verb, mut tag) = (None, None);
        while let Some(Key(key)) = map.next_key::<Key<'de>>()? {
            if key == "tag" {
                tag = map.next_value()?;
                continue;
            }
            if verb.is_some() {
                return Err(A::Error::custom("a line has exactly one verb"));
            }
            verb = Verb::read(&key, &mut map)?;
            if verb.is_none() {
                return Err(A::Error::unknown_field(&key, Verb::WIRE));
            }
        }
        let verb = verb.ok_or_else(|| A::Error::custom("the line has no verb"))?;
        Ok(Line { verb, tag })
    }
}

impl<'de> Deserialize<'de> for Line {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(LineVisitor)
    }
}

struct AnswerVisitor;

impl<'de> Visitor<'de> for AnswerVisitor {
    type Value = AnswerLine;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an answer")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<AnswerLine, A::Error> {
        let (mut answer, mut tag) = (None, None);
        // Answers whose fields stand beside the tag.
        let mut whole = Map::new();
        while let Some(Key(key)) = map.next_key::<Key<'de>>()? {
            if key == "tag" {
                tag = map.next_value()?;
            } else if !whole.is_empty() || key == "error" {
                whole.insert(key.into_owned(), map.next_value()?);
            } else if key == "renewed" && answer.is_none() {
                match map.next_value::<Or<Renewed>>()? {
                    Or::Body(renewed) => answer = Some(Answer::Renewed(renewed)),
                    Or::Word(id) => _ = whole.insert(key.into_owned(), Value::String(id)),
                }
            } else if key == "event" && answer.is_none() {
                match map.next_value::<Or<Box<Event>>>()? {
                    Or::Body(event) => answer = Some(Answer::Event(event)),
                    Or::Word(word) => _ = whole.insert(key.into_owned(), Value::String(word)),
                }
            } else if answer.is_none() {
                answer = Answer::read(&key, &mut map)?;
                if answer.is_none() {
                    map.next_value::<IgnoredAny>()?;
                }
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        if !whole.is_empty() {
            let (error, renewed) = (whole.contains_key("error"), whole.contains_key("renewed"));
            let whole = Value::Object(whole);
            let read = if error {
                Error::deserialize(whole).map(Answer::Error)
            } else if renewed {
                RegistrationRenewed::deserialize(whole).map(Answer::RegistrationRenewed)
            } else {
                DiscoveryEvent::deserialize(whole).map(Answer::Discovery)
            };
            answer = Some(read.map_err(A::Error::custom)?);
        }
        let answer = answer.ok_or_else(|| A::Error::custom("the line has no answer that is known"))?;
        Ok(AnswerLine { answer, tag })
    }
}

impl<'de> Deserialize<'de> for AnswerLine {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(AnswerVisitor)
    }
}

/// Why a key is none of a body's, kept apart from its words: the body does not know of the `lease_id` beside it.
#[derive(Debug, thiserror::Error)]
enum UnknownKey {
    #[error("unknown field {0:?}")]
    Field(Box<str>, &'static [&'static str]),
    #[error("{0}")]
    Other(Box<str>),
}

impl serde::de::Error for UnknownKey {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::Other(message.to_string().into())
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        Self::Field(field.into(), expected)
    }
}

impl UnknownKey {
    fn beside_a_lease<E: serde::de::Error>(self) -> E {
        match self {
            Self::Field(field, []) => E::custom(format!("unknown field `{field}`, expected `lease_id`")),
            Self::Field(field, fields) => {
                let fields = fields.join("`, `");
                E::custom(format!("unknown field `{field}`, expected one of `lease_id`, `{fields}`"))
            }
            Self::Other(message) => E::custom(message),
        }
    }
}

/// Takes `lease_id` out of a map while its reader sees the rest.
struct WithoutLease<'a, A> {
    map: A,
    lease_id: &'a mut Option<String>,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for WithoutLease<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        while let Some(Key(key)) = self.map.next_key::<Key<'de>>()? {
            if key != "lease_id" {
                let read = seed.deserialize(CowStrDeserializer::<UnknownKey>::new(key));
                return read.map(Some).map_err(UnknownKey::beside_a_lease);
            }
            if self.lease_id.replace(self.map.next_value()?).is_some() {
                return Err(A::Error::duplicate_field("lease_id"));
            }
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.map.next_value_seed(seed)
    }
}

struct ByLeaseVisitor<T>(PhantomData<T>);

impl<'de, T: DeserializeOwned> Visitor<'de> for ByLeaseVisitor<T> {
    type Value = ByLease<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with a lease_id")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ByLease<T>, A::Error> {
        let mut lease_id = None;
        let rest = WithoutLease { map, lease_id: &mut lease_id };
        let body = T::deserialize(MapAccessDeserializer::new(rest))?;
        let lease_id = lease_id.ok_or_else(|| A::Error::missing_field("lease_id"))?;
        Ok(ByLease { lease_id, body })
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for ByLease<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ByLeaseVisitor(PhantomData))
    }
}

impl<T: Serialize> Serialize for ByLease<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Flat<'a, T> {
            lease_id: &'a str,
            #[serde(flatten)]
            body: &'a T,
        }
        Flat { lease_id: &self.lease_id, body: &self.body }.serialize(serializer)
    }
}

struct HeartbeatVisitor;

impl<'de> Visitor<'de> for HeartbeatVisitor {
    type Value = Heartbeat;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a lease with its epoch, or the id of a registration")
    }

    fn visit_str<E: serde::de::Error>(self, id: &str) -> Result<Heartbeat, E> {
        Ok(Heartbeat::Registration(id.to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Heartbeat, A::Error> {
        ByLeaseVisitor(PhantomData).visit_map(map).map(Heartbeat::Lease)
    }
}

impl<'de> Deserialize<'de> for Heartbeat {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(HeartbeatVisitor)
    }
}

impl Serialize for Heartbeat {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Lease(lease) => lease.serialize(serializer),
            Self::Registration(id) => serializer.serialize_str(id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Line, LineError> {
        Line::parse(line.as_bytes())
    }

    #[test]
    fn a_field_that_a_verb_does_not_know_is_answered_with_those_that_it_knows() {
        let said = |line: &str| Line::parse(line.as_bytes()).expect_err("refused").to_string();
        let inspect = said(r#"{"inspect":{"lease":"k3f9-4"}}"#);
        assert!(inspect.starts_with("unknown field `lease`, expected `lease_id`"), "{inspect}");
        for verb in ["release", "heartbeat", "activate", "resume", "acknowledge"] {
            let told = said(&format!(r#"{{"{verb}":{{"lease_id":"k3f9-4","epok":1}}}}"#));
            let all = "unknown field `epok`, expected one of `lease_id`, `epoch`, `holder`, `reason`, `operation_id`";
            assert!(told.starts_with(all), "{told}");
        }
        for verb in ["drain", "revive", "revoke", "reclaim", "amend"] {
            let told = said(&format!(r#"{{"{verb}":{{"lease":"k3f9-4"}}}}"#));
            assert!(told.starts_with("unknown field `lease`, expected one of `lease_id`, `"), "{told}");
        }
    }

    #[test]
    fn the_tag_may_stand_before_or_after_the_verb() {
        let before = parse(r#"{"tag":7,"inspect":{"lease_id":"k3f9-1"}}"#).expect("a line");
        let after = parse(r#"{"inspect":{"lease_id":"k3f9-1"},"tag":7}"#).expect("a line");
        assert_eq!(before, after);
        assert_eq!(before.tag, Some(Tag::number(7)));
    }

    #[test]
    fn a_lease_id_is_found_among_the_fields_of_its_body() {
        let line = parse(r#"{"release":{"epoch":3,"lease_id":"k3f9-1","reason":"done"}}"#).expect("a line");
        let Verb::Release(release) = line.verb else { panic!("{line:?}") };
        assert_eq!(release.lease_id, "k3f9-1");
        assert_eq!(release.body.epoch, 3);
        assert_eq!(release.body.reason.as_deref(), Some("done"));
    }

    #[test]
    fn a_wrong_body_keeps_its_tag_and_names_the_field() {
        let error =
            parse(r#"{"release":{"lease_id":"k3f9-1","epoch":1,"colour":"red"},"tag":"a"}"#).unwrap_err();
        assert!(error.in_body);
        assert_eq!(error.tag, Some(Tag::Text("a".to_owned())));
        assert!(error.to_string().contains("colour"), "{error}");
    }

    #[test]
    fn lines_without_exactly_one_known_verb_are_refused() {
        for line in ["{}", r#"{"tag":1}"#, r#"{"fly":{}}"#, r#"{"status":{},"list":{}}"#, "[]", "7", "", "{"]
        {
            let error = parse(line).unwrap_err();
            assert!(!error.in_body, "{line}");
        }
    }

    /// Over HTTP such a body is refused; here `acquire` and `pool` took it by the order of their fields.
    #[test]
    fn a_list_is_no_body_of_any_verb() {
        for verb in Verb::WIRE {
            for list in ["[]", r#"[["r"]]"#, r#"["r"]"#, r#"["r",1]"#, r#"["r",1,false,false]"#] {
                let error = parse(&format!("{{\"{verb}\":{list},\"tag\":7}}")).unwrap_err();
                assert!(error.in_body, "{verb} {list}");
                assert_eq!(error.tag, Some(Tag::number(7)));
                assert!(error.to_string().contains("sequence"), "{verb} {list}: {error}");
            }
        }
    }

    #[test]
    fn a_heartbeat_is_of_a_lease_or_of_a_registration() {
        let lease = parse(r#"{"heartbeat":{"lease_id":"k3f9-1","epoch":1}}"#).expect("a line");
        assert!(matches!(lease.verb, Verb::Heartbeat(Heartbeat::Lease(_))));
        let registration = parse(r#"{"heartbeat":"0a1b"}"#).expect("a line");
        assert_eq!(registration.verb, Verb::Heartbeat(Heartbeat::Registration("0a1b".to_owned())));
    }

    #[test]
    fn what_is_written_is_read_again() {
        let line = Line {
            verb: Verb::Release(ByLease {
                lease_id: "k3f9-1".to_owned(),
                body: HolderCall { epoch: 2, ..HolderCall::default() },
            }),
            tag: Some(Tag::number(1)),
        };
        let text = serde_json::to_string(&line).expect("a line");
        assert_eq!(text, r#"{"release":{"lease_id":"k3f9-1","epoch":2},"tag":1}"#);
        assert_eq!(parse(&text).expect("a line"), line);

        let error = Error::new(crate::ErrorCode::StaleEpoch, "no").with("current", 4).lost();
        let renewed = RegistrationRenewed { renewed: "0a1b2c3d".to_owned(), lease: 90, draining: false };
        let gone = DiscoveryEvent {
            event: crate::DiscoveryEventKind::Removed,
            service: ServiceRecord::named("a.b", "_http._tcp"),
        };
        for answer in [
            Answer::Error(error),
            Answer::Stopped(Tag::number(4)),
            Answer::RegistrationRenewed(renewed),
            Answer::Discovery(gone),
        ] {
            let said = AnswerLine { answer, tag: Some(Tag::Text("x".to_owned())) };
            let text = serde_json::to_string(&said).expect("a line");
            assert_eq!(serde_json::from_str::<AnswerLine>(&text).expect("an answer"), said, "{text}");
        }
    }

    #[test]
    fn the_reference_shows_every_verb_and_every_line_of_it_is_understood() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/line-protocol.md");
        let page = std::fs::read_to_string(path).expect("the reference");
        let (mut asked, mut said) = (std::collections::BTreeSet::new(), 0);
        for line in page.lines() {
            if let Some(line) = line.strip_prefix("> ") {
                let read = Line::parse(line.as_bytes()).unwrap_or_else(|error| panic!("{line}: {error}"));
                asked.insert(read.verb.wire());
            } else if let Some(line) = line.strip_prefix("< ") {
                let read = serde_json::from_str::<AnswerLine>(line);
                assert!(read.is_ok(), "{line}: {:?}", read.err());
                said += 1;
            }
        }
        for verb in Verb::WIRE {
            assert!(asked.contains(verb), "{verb} has no example");
            assert!(page.contains(&format!("| `{verb}` |")), "{verb} is not in the table");
        }
        assert!(said >= Verb::WIRE.len(), "{said} answers");
    }
}
