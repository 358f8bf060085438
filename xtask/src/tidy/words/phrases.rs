//! The phrases that are not written, what to write instead, and where one stands all the same.

/// Words in lower case with spaces between; `a|b` is either, `*` is any word.
pub(super) struct Phrase {
    pub(super) words: &'static str,
    pub(super) instead: &'static str,
    /// Not found if this word comes right before it.
    pub(super) not_after: &'static [&'static str],
    /// Not found if this word comes right behind it.
    pub(super) not_before: &'static [&'static str],
    /// Not found if its last word is one of these.
    pub(super) not_last: &'static [&'static str],
}

/// A phrase that may stand in one file: a quotation, or a file that is not rewritten yet (`*`).
pub(super) struct Allowed {
    pub(super) path: &'static str,
    pub(super) phrase: &'static str,
}

pub(super) const ALLOWED: &[Allowed] = &[];

const fn phrase(words: &'static str, instead: &'static str) -> Phrase {
    Phrase { words, instead, not_after: &[], not_before: &[], not_last: &[] }
}

const NOUN: &str = "name the subject: the daemon, the client, no node";
const DEFAULT: &str = "write `[default: …]`";
const ACTIVE: &str = "say what sends, reports or notifies";
const METAPHOR: &str = "a metaphor: use the field's word";
const ENGLISH: &str = "not English of today";

pub(super) const PHRASES: &[Phrase] = &[
    // Defaults.
    phrase("unless told", DEFAULT),
    phrase("unless set", DEFAULT),
    phrase("unless said", DEFAULT),
    // Subjects without a noun.
    phrase("whoever", NOUN),
    phrase("whosoever", NOUN),
    phrase("nobody|nobody's", NOUN),
    phrase("somebody|somebody's", NOUN),
    phrase("anybody|anybody's", NOUN),
    phrase("everybody|everybody's", NOUN),
    phrase("who writes", "the leader"),
    phrase("who asks", "the caller"),
    phrase("who may ask", "who is allowed to call the daemon"),
    phrase("those who cannot", NOUN),
    // Machines do not tell, speak or hear.
    phrase("is|are|was|were|be|been|being told", ACTIVE),
    phrase("told to", ACTIVE),
    phrase("spoken to", "use `connects to` or `uses`"),
    phrase("is|are|was|were spoken", "use `uses` or `accepts`"),
    phrase("told goodbye", ACTIVE),
    phrase("said goodbye", "sends a goodbye packet"),
    phrase("says goodbye", "sends a goodbye packet"),
    phrase("unasked", "name what triggers it"),
    phrase("does not welcome", "name the error"),
    // Grammar.
    phrase(
        "it|session|lease|sessions|leases|them is|are heartbeat",
        "`heartbeat` is a noun: sends heartbeats, is renewed",
    ),
    phrase("is|are none", "say what is missing"),
    Phrase {
        words: "is|was|are|were no *",
        instead: "write `is not a …`",
        not_after: &["there", "where", "here", "this", "if"],
        not_before: &[],
        not_last: &[
            "longer",
            "more",
            "less",
            "fewer",
            "later",
            "earlier",
            "older",
            "newer",
            "larger",
            "smaller",
            "other",
            "different",
        ],
    },
    phrase("belong|belongs into", "belongs in"),
    phrase("stands on its standard", "is passed on standard input"),
    phrase("can not", "cannot"),
    phrase("may not ask", "is not allowed to call the daemon"),
    // Old forms.
    phrase("for so long", "for this long"),
    phrase("any so many", "N"),
    phrase("how long yet", "the time left"),
    phrase("how it bears", "how it performs"),
    phrase("begins so", "begins with it"),
    phrase("for ever", "forever, or without limit"),
    phrase("as ever", "as before, or nothing"),
    phrase("anew", "again"),
    phrase("thereof|therein|whereof|wherein|whence|thence|hither|thither|lest|unto|ere", ENGLISH),
    // Separable verbs.
    phrase("gave|give|gives the log up", "resigned, resigns"),
    phrase("took|take|takes the log over", "became the leader"),
    // Metaphors as names.
    phrase("helm|crown|epitaph|epitaphs|sightseeing|errand|errands|desk|desks|junction", METAPHOR),
    phrase("farewell|farewells", "goodbye packet"),
    phrase("ghost|ghosts", "stale mDNS record"),
    phrase("lapse|lapses|lapsed", "expired, lost leadership"),
    phrase("without a word", "without an error, without a log line"),
    phrase("gives|give|gave its word", "renews, node keepalive"),
    phrase("operator's word", "an operator's cordon, pin or command"),
    phrase("kernel's word", "the kernel reports"),
    phrase("plays|play|played a|its|parts|one part|parts", "has the role"),
    phrase("has a home", "belongs to one node"),
    phrase("has the past", "has the history"),
    phrase("which room", METAPHOR),
    phrase("stand|stands in the way", "name what blocks"),
    phrase("rise|rises again", "is restored"),
    phrase("this node|daemon writes", "leads"),
    phrase("the|one|new|former writer", "leader"),
    // Words with another name.
    phrase("face|faces", "application"),
    phrase("by hand session", "session"),
    phrase("session|sessions by hand", "session"),
    phrase("gate|gates", "finalizer"),
];

/// Words of the code, and phrases that records may keep, which users know by another name.
pub(super) const FOR_USERS: &[Phrase] = &[
    Phrase {
        words: "refuse|refuses|refused|refusing",
        instead: "the daemon rejects, the request is rejected",
        // The system's own word for an address where nothing listens.
        not_after: &["connection"],
        not_before: &[],
        not_last: &[],
    },
    // The parts of a cluster.
    phrase("node|nodes that writes|write", "the leader"),
    phrase("no node writes", "the cluster has no leader"),
    phrase("sign|signs|proof|proofs of life", "renewal, heartbeat, keepalive"),
    phrase("talk|talks|talking to", "connects to, uses"),
    // Answers and errors.
    phrase("answer|answers|answered something else", "unexpected answer"),
    phrase("not a word", "no message, no answer"),
    phrase("without end", "larger than the limit, without limit"),
    phrase("know|knows no", "has no, does not support"),
    phrase("it has none", "name what is missing"),
    phrase("nothing is to be", "no action is needed"),
    phrase("asked for it", "requested it"),
    phrase("is|are|was|were taken back", "is cancelled, is withdrawn"),
    phrase("for want of", "because … is missing"),
    phrase("died|dies of", "was killed by"),
    phrase("stand|stands twice", "occurs twice"),
    phrase("stand|stands in it|two", "is in"),
    phrase("decide|decides nothing", "is advisory"),
    phrase("come|comes to another", "differs from"),
    phrase("put|puts aside", "moves aside"),
];
