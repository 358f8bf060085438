//! Sessions.

use tenure_api::{Session, SessionKind, SessionRenewed};
use tenure_history::duration;

use super::{Now, Page, names, seen, when, word};
use crate::printer::counted;
use crate::table::Table;

/// Leases named on a page.
const NAMES_MAX: usize = 20;

/// Everything about one session.
pub(crate) fn session_page(session: &Session) -> Page {
    let now = Now::of(&session.server_time);
    let mut page = Page::default();
    page.row("session", session.session.clone());
    page.row("holder", session.holder.clone());
    page.row("kept by", kept_by(session));
    page.row("grace", duration(session.grace_ms));
    page.row("accepts", session.accepts_handover.as_ref().map(|prefix| format!("handovers of {prefix}…")));
    page.row("liveness", session.liveness.as_ref().map_or_else(|| "closed".to_owned(), word));
    page.row("leases", session.leases.to_string());
    page.row("last seen", heard(session, now));
    page.row("valid for", session.valid_ms.map(duration));
    page.row("next", session.deadline.as_ref().map(|at| format!("its current phase ends {}", when(now, at))));
    page
}

fn heard(session: &Session, now: Option<Now>) -> Option<String> {
    seen(session.last_seen.as_ref(), session.unheard_since.as_ref(), |at| when(now, at))
}

/// One row each.
pub(crate) fn session_table(sessions: &[Session]) -> Table {
    let mut table =
        Table::new(&["ID", "HOLDER", "KEPT BY", "GRACE", "LIVENESS", "LEASES", "LEFT", "LAST SEEN"]);
    for session in sessions {
        let now = Now::of(&session.server_time);
        table.row(vec![
            session.session.clone(),
            session.holder.clone(),
            kept_by(session),
            duration(session.grace_ms),
            session.liveness.as_ref().map_or_else(|| "closed".to_owned(), word),
            session.leases.to_string(),
            session.remaining_ms.map(duration).unwrap_or_default(),
            heard(session, now).unwrap_or_default(),
        ]);
    }
    table
}

/// A session heartbeat's answer.
pub(crate) fn session_renewed_page(renewed: &SessionRenewed) -> Page {
    let mut page = Page::default();
    page.row("session", renewed.session.clone());
    page.row("valid for", duration(renewed.valid_ms));
    page.row("lsn", format!("{} (the next --seen-lsn)", renewed.lsn));
    page.row(
        "lost",
        match renewed.ended.as_deref() {
            None => Some("too many to report: list the leases".to_owned()),
            Some([]) => None,
            Some(ended) => {
                let shown: Vec<String> =
                    ended.iter().map(|lease| format!("{} ({})", lease.lease_id, lease.reason)).collect();
                Some(format!("{}: {}", counted(ended.len() as u64, "lease"), names(&shown, NAMES_MAX)))
            }
        },
    );
    page.row("draining", names(&renewed.draining, NAMES_MAX));
    page
}

fn kept_by(session: &Session) -> String {
    match (session.kind, session.ttl_ms) {
        (SessionKind::Connection, _) => "a connection".to_owned(),
        (SessionKind::Stdin, _) => "standard input".to_owned(),
        (SessionKind::ByHand, Some(ttl)) => format!("heartbeats, ttl {}", duration(ttl)),
        (SessionKind::ByHand, None) => "heartbeats".to_owned(),
    }
}
