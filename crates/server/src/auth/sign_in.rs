//! How a browser is signed in: a code that is good once and briefly, then a cookie and a page value, which count only
//! together. Browsers send a cookie to every port of a host, so any other service there receives it; the page keeps its
//! value per origin and sends it in a header. Holds hashes, in memory alone: they are gone with the daemon. Time enters
//! as a value.
//!
//! Invariant: nobody gains by signing in. A cookie is its asker's own principal with no more than its scope, ends
//! with the token it rests on, and makes no further codes.

use super::Admitted;
use super::tokens::{TokenTable, token_hash};
use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::{Mutex, OnceLock, PoisonError};
use subtle::ConstantTimeEq;

/// How long a code is good for.
pub(crate) const CODE_SECS: u64 = 60;
/// How long a cookie is.
pub(crate) const COOKIE_SECS: u64 = 12 * 60 * 60;
const CODES_MAX: usize = 512;
const COOKIES_MAX: usize = 1_024;
/// Codes, and cookies, of one principal: it pushes out its own before those of others.
const OF_ONE_MAX: usize = 32;
const CODE_BYTES: usize = 16;
const COOKIE_BYTES: usize = 32;
const PAGE_BYTES: usize = 32;

/// Both halves of a sign-in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Halves<'a> {
    /// The daemon's cookie.
    pub(crate) cookie: &'a str,
    /// What the page keeps.
    pub(crate) page: &'a str,
}

/// What a browser gets for a code.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Issued {
    pub(super) admitted: Admitted,
    pub(super) cookie: String,
    pub(super) page: String,
}

/// Codes and cookies that are good.
#[derive(Debug)]
pub(super) struct SignIns {
    codes: Mutex<Passes>,
    cookies: Mutex<Passes>,
    /// Cookies are sent to every port of a host, so the name tells the daemons of a machine apart.
    cookie_name: OnceLock<String>,
}

/// Secrets that stand for a principal for some time, oldest first.
#[derive(Debug)]
struct Passes {
    passes: VecDeque<Pass>,
    max: usize,
    valid_ms: u64,
}

#[derive(Clone, Debug)]
struct Pass {
    hash: [u8; 32],
    bearer: Bearer,
    until_ms: u64,
}

/// Whom a code or a cookie stands for.
#[derive(Clone, Debug)]
pub(super) struct Bearer {
    admitted: Admitted,
    /// Hash of the token that its principal showed.
    token: Option<[u8; 32]>,
}

impl SignIns {
    pub(super) fn new() -> Self {
        Self {
            codes: Mutex::new(Passes::new(CODES_MAX, CODE_SECS)),
            cookies: Mutex::new(Passes::new(COOKIES_MAX, COOKIE_SECS)),
            cookie_name: OnceLock::new(),
        }
    }

    pub(super) fn listens_on(&self, port: u16) {
        let _ = self.cookie_name.set(format!("tenure_{port}"));
    }

    /// `None`: nobody can show a cookie, because the daemon does not listen.
    pub(super) fn cookie_name(&self) -> Option<&str> {
        self.cookie_name.get().map(String::as_str)
    }

    /// Makes a code.
    pub(super) fn make_code(&self, bearer: Bearer, now_ms: u64) -> String {
        let code = secret::<CODE_BYTES>();
        self.codes.lock().unwrap_or_else(PoisonError::into_inner).add(&code, bearer, now_ms);
        code
    }

    /// Takes a code and gives a cookie and a page value for it.
    pub(super) fn redeem(&self, code: &str, tokens: Option<&TokenTable>, now_ms: u64) -> Option<Issued> {
        let taken = self.codes.lock().unwrap_or_else(PoisonError::into_inner).take(code, now_ms)?;
        let admitted = taken.now(tokens, now_ms)?;
        let (cookie, page) = (secret::<COOKIE_BYTES>(), secret::<PAGE_BYTES>());
        let both = Halves { cookie: &cookie, page: &page }.joined();
        self.cookies.lock().unwrap_or_else(PoisonError::into_inner).add(&both, taken, now_ms);
        Some(Issued { admitted, cookie, page })
    }

    /// Whose sign-in this is.
    pub(super) fn find(
        &self,
        halves: Halves<'_>,
        tokens: Option<&TokenTable>,
        now_ms: u64,
    ) -> Option<Admitted> {
        let mut cookies = self.cookies.lock().unwrap_or_else(PoisonError::into_inner);
        let both = halves.joined();
        let bearer = cookies.find(&both, now_ms)?;
        let admitted = bearer.now(tokens, now_ms);
        if admitted.is_none() {
            cookies.take(&both, now_ms);
        }
        admitted.map(|admitted| Admitted { by_cookie: true, ..admitted })
    }

    /// Ends a sign-in; says whether there was one.
    pub(super) fn end(&self, halves: Halves<'_>, now_ms: u64) -> bool {
        self.cookies.lock().unwrap_or_else(PoisonError::into_inner).take(&halves.joined(), now_ms).is_some()
    }
}

impl Halves<'_> {
    /// As they are hashed: together, so that half of one is no nearer than nothing. A page value with a dot in it would
    /// be the end of another cookie, and no cookie has one.
    fn joined(self) -> String {
        format!("{}.{}", self.cookie, self.page)
    }
}

impl Bearer {
    /// Whoever asks now, with the token that it showed.
    pub(super) fn new(admitted: &Admitted, tokens: Option<&TokenTable>, now_ms: u64) -> Self {
        let entry = token_name(admitted).and_then(|name| tokens?.entry(name, now_ms));
        let token = entry.map(|(entry, _)| entry.hash);
        Self { admitted: admitted.clone(), token }
    }

    /// Who that is now, with what both the sign-in and the token allow. `None`: its token was removed, another is called
    /// so, or the two name different resources.
    fn now(&self, tokens: Option<&TokenTable>, now_ms: u64) -> Option<Admitted> {
        let Some(name) = token_name(&self.admitted) else {
            return Some(self.admitted.clone());
        };
        let (entry, is_outdated) = tokens?.entry(name, now_ms)?;
        if Some(entry.hash) != self.token {
            return None;
        }
        let within = match (&self.admitted.within, entry.scope.within) {
            (Some(then), Some(now)) if *then != now => return None,
            (Some(then), _) => Some(then.clone()),
            (None, now) => now,
        };
        let scope = entry.scope.scope.min(self.admitted.scope);
        Some(Admitted { scope, within, is_outdated, ..self.admitted.clone() })
    }
}

fn token_name(admitted: &Admitted) -> Option<&str> {
    admitted.principal.strip_prefix("token:")
}

impl Passes {
    fn new(max: usize, valid_secs: u64) -> Self {
        Self { passes: VecDeque::new(), max, valid_ms: valid_secs * 1_000 }
    }

    fn add(&mut self, secret: &str, bearer: Bearer, now_ms: u64) {
        self.forget_expired(now_ms);
        let principal = &bearer.admitted.principal;
        let is_own = |pass: &Pass| pass.bearer.admitted.principal == *principal;
        if self.passes.iter().filter(|pass| is_own(pass)).count() >= OF_ONE_MAX
            && let Some(oldest) = self.passes.iter().position(is_own)
        {
            self.passes.remove(oldest);
        } else if self.passes.len() >= self.max {
            self.passes.pop_front();
        }
        let until_ms = now_ms.saturating_add(self.valid_ms);
        self.passes.push_back(Pass { hash: token_hash(secret), bearer, until_ms });
    }

    fn find(&mut self, secret: &str, now_ms: u64) -> Option<Bearer> {
        self.forget_expired(now_ms);
        self.position(secret).map(|found| self.passes[found].bearer.clone())
    }

    fn take(&mut self, secret: &str, now_ms: u64) -> Option<Bearer> {
        self.forget_expired(now_ms);
        let found = self.position(secret)?;
        self.passes.remove(found).map(|pass| pass.bearer)
    }

    /// Compares with every one, so that the time it takes says nothing.
    fn position(&self, secret: &str) -> Option<usize> {
        let hash = token_hash(secret);
        let mut found = None;
        for (index, pass) in self.passes.iter().enumerate() {
            if bool::from(pass.hash.ct_eq(&hash)) {
                found = Some(index);
            }
        }
        found
    }

    /// All are good for equally long, so those that came first go first.
    fn forget_expired(&mut self, now_ms: u64) {
        while self.passes.front().is_some_and(|pass| pass.until_ms <= now_ms) {
            self.passes.pop_front();
        }
    }
}

fn secret<const BYTES: usize>() -> String {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes).expect("invariant: the system gives random bytes");
    let mut text = String::with_capacity(2 * BYTES);
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use tenure_faces::Scope;

    impl Issued {
        fn halves(&self) -> Halves<'_> {
            Halves { cookie: &self.cookie, page: &self.page }
        }
    }

    fn bearer(principal: &str) -> Bearer {
        Bearer { admitted: Admitted::new(principal, Scope::Hold), token: None }
    }

    #[test]
    fn a_code_is_good_once_and_for_a_minute() {
        let sign_ins = SignIns::new();
        let code = sign_ins.make_code(bearer("uid:7"), 1_000);
        assert!(sign_ins.redeem("", None, 1_000).is_none());
        assert!(sign_ins.redeem(&code[1..], None, 1_000).is_none());
        let issued = sign_ins.redeem(&code, None, 60_999).unwrap();
        assert_eq!(&*issued.admitted.principal, "uid:7");
        assert!(sign_ins.redeem(&code, None, 60_999).is_none(), "used");
        assert!(sign_ins.redeem(&issued.cookie, None, 60_999).is_none(), "a cookie is no code");
        let code_as_cookie = Halves { cookie: &code, page: &issued.page };
        assert!(sign_ins.find(code_as_cookie, None, 60_999).is_none(), "a code is no cookie");
        let late = sign_ins.make_code(bearer("uid:7"), 1_000);
        assert!(sign_ins.redeem(&late, None, 61_000).is_none());
    }

    #[test]
    fn a_cookie_is_good_for_half_a_day_or_until_it_is_ended() {
        let sign_ins = SignIns::new();
        let signed_in = || {
            let code = sign_ins.make_code(bearer("uid:7"), 0);
            sign_ins.redeem(&code, None, 0).unwrap()
        };
        let (first, second) = (signed_in(), signed_in());
        let (first, second) = (first.halves(), second.halves());
        let last_ms = COOKIE_SECS * 1_000 - 1;
        assert!(!sign_ins.end(Halves { page: second.page, ..first }, 10), "not theirs to end");
        assert!(sign_ins.end(first, 10));
        assert!(!sign_ins.end(first, 10));
        assert!(sign_ins.find(first, None, 10).is_none());
        assert!(sign_ins.find(second, None, last_ms).is_some());
        assert!(sign_ins.find(second, None, last_ms + 1).is_none());
        assert!(sign_ins.find(second, None, last_ms).is_none(), "what is forgotten stays so");
    }

    #[test]
    fn neither_half_counts_alone_nor_with_the_half_of_another() {
        let sign_ins = SignIns::new();
        let signed_in = |who: &str| {
            let code = sign_ins.make_code(bearer(who), 0);
            sign_ins.redeem(&code, None, 0).unwrap()
        };
        let (mine, theirs) = (signed_in("uid:1"), signed_in("uid:2"));
        assert_ne!(mine.cookie, mine.page);
        for (cookie, page) in [
            (mine.cookie.as_str(), ""),
            (&mine.cookie, theirs.page.as_str()),
            (&theirs.cookie, &mine.page),
            ("", &mine.page),
            (&mine.page, &mine.cookie),
            (&mine.cookie, &mine.cookie),
        ] {
            assert!(sign_ins.find(Halves { cookie, page }, None, 0).is_none(), "{cookie} {page}");
        }
        let found = sign_ins.find(mine.halves(), None, 0).unwrap();
        assert_eq!((&*found.principal, found.by_cookie), ("uid:1", true));
    }

    #[test]
    fn secrets_are_long_and_never_alike_and_are_not_kept() {
        let sign_ins = SignIns::new();
        let codes: Vec<String> = (0..20).map(|_| sign_ins.make_code(bearer("local"), 0)).collect();
        assert!(codes.iter().all(|code| code.len() == 2 * CODE_BYTES));
        assert_eq!(codes.iter().collect::<HashSet<_>>().len(), codes.len());
        let Issued { cookie, page, .. } = sign_ins.redeem(&codes[0], None, 0).unwrap();
        assert_eq!((cookie.len(), page.len()), (2 * COOKIE_BYTES, 2 * PAGE_BYTES));
        let kept = format!("{sign_ins:?}");
        assert!(
            !kept.contains(&cookie) && !kept.contains(&page) && codes.iter().all(|code| !kept.contains(code))
        );
    }

    #[test]
    fn who_makes_many_pushes_out_their_own() {
        let sign_ins = SignIns::new();
        let of_other = sign_ins.make_code(bearer("uid:1"), 0);
        let codes: Vec<String> =
            (0..=OF_ONE_MAX as u64).map(|at| sign_ins.make_code(bearer("uid:2"), at)).collect();
        assert!(sign_ins.redeem(&codes[0], None, 100).is_none(), "the oldest");
        assert!(sign_ins.redeem(&codes[1], None, 100).is_some());
        assert!(sign_ins.redeem(&of_other, None, 100).is_some());
    }

    #[test]
    fn there_is_an_end_to_codes_of_many_principals() {
        let sign_ins = SignIns::new();
        let codes: Vec<String> =
            (0..=CODES_MAX).map(|uid| sign_ins.make_code(bearer(&format!("uid:{uid}")), 0)).collect();
        assert!(sign_ins.redeem(&codes[0], None, 0).is_none(), "the oldest");
        assert!(sign_ins.redeem(&codes[1], None, 0).is_some());
        assert!(sign_ins.redeem(&codes[CODES_MAX], None, 0).is_some());
    }
}
