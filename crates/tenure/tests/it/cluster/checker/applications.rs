//! Histories of applications, written by hand: what each may do, and what must be found.

use super::hand_written::{Story, story};
use super::{Rule, check};
use crate::cluster::history::{Application, Asked, Authority, Heard, State};

/// A grant of one of several resources, to a holder that several operations name.
fn granted_one_of(
    story: Story,
    operation: &str,
    when: [u64; 2],
    (resource, holder): (&str, &str),
    (lease, fence, valid_ms): (&str, u64, u64),
) -> Story {
    let asked = Asked::Acquire { resource: resource.to_owned(), holder: holder.to_owned() };
    let heard = Heard::Granted { lease: lease.to_owned(), fence, valid_ms, state: State::Live };
    story.push(operation, asked, when[0], Some((when[1], heard)))
}

fn not_heard(story: Story, operation: &str, sent: u64, (resource, holder): (&str, &str)) -> Story {
    let asked = Asked::Acquire { resource: resource.to_owned(), holder: holder.to_owned() };
    story.push(operation, asked, sent, None)
}

fn gives_up(story: Story, lease: &str, sent: u64, heard: Option<u64>) -> Story {
    let asked = Asked::GiveUp { lease: lease.to_owned() };
    story.push(&format!("give up {lease}"), asked, sent, heard.map(|at| (at, Heard::GivenUp)))
}

fn seen(story: Story, resource: &str, when: [u64; 2], (lease, holder, fence): (&str, &str, u64)) -> Story {
    let (lease, holder) = (lease.to_owned(), holder.to_owned());
    let asked = Asked::Check { resource: resource.to_owned() };
    let heard = Heard::Authority(Some(Authority { lease, holder, fence }));
    story.push("check", asked, when[0], Some((when[1], heard)))
}

const CONNECTION: (&str, &str) = ("conn/1", "a");

fn connected() -> Story {
    granted_one_of(story(), "a", [0, 10], CONNECTION, ("L1", 1, 1_000))
}

fn connected_next(story: Story, when: [u64; 2]) -> Story {
    granted_one_of(story, "b", when, ("conn/1", "b"), ("L2", 2, 1_000))
}

#[test]
fn a_close_frees_what_the_connection_held_and_nothing_else_does() {
    let closed = || gives_up(connected(), "L1", 100, None);
    connected_next(closed().ended("L1", [150, 160], "session_expired"), [120, 130]).passes();
    connected_next(connected().ended("L1", [1_150, 1_160], "session_expired"), [1_120, 1_130]).passes();
    // The node was lost, not the holder: its promise counts.
    connected_next(connected(), [120, 130]).breaks(&[Rule::PromisesNeverOverlap, Rule::Linearizable]);
    connected().ended("L1", [150, 160], "session_expired").breaks(&[Rule::PromisesAreKept]);
    // It was closed after another one had it.
    connected_next(gives_up(connected(), "L1", 200, None), [120, 130])
        .breaks(&[Rule::PromisesNeverOverlap, Rule::Linearizable]);
    connected().ended("L1", [1_150, 1_160], "heartbeat_expired").breaks(&[Rule::NothingIsLost]);
}

#[test]
fn a_slot_has_one_session_at_a_time() {
    let start = |story, operation, when, slot, lease| {
        granted_one_of(
            not_heard(story, operation, when, ("tuner/*", operation)),
            operation,
            [when, when + 10],
            (slot, operation),
            lease,
        )
    };
    let first = || start(story(), "a", 0, "tuner/1", ("L1", 1, 1_000));
    start(first(), "b", 20, "tuner/2", ("L2", 2, 1_000)).passes();
    start(first().released("L1", [50, 60]), "b", 70, "tuner/1", ("L2", 2, 1_000)).passes();
    start(first(), "b", 20, "tuner/1", ("L2", 2, 1_000))
        .breaks(&[Rule::PromisesNeverOverlap, Rule::Linearizable]);
    // A slot of a pool that was not asked for.
    start(first(), "b", 20, "other/1", ("L2", 2, 1_000)).breaks(&[Rule::NothingFromNowhere]);
    // One start, two slots.
    let again = ("tuner/2", "a");
    granted_one_of(first(), "a", [30, 40], again, ("L2", 2, 1_000)).breaks(&[Rule::OneOperationOneLease]);
    granted_one_of(first(), "a", [30, 40], again, ("L1", 1, 900)).breaks(&[Rule::NothingFromNowhere]);
}

#[test]
fn a_name_is_one_registrants_until_it_is_unregistered_and_said_goodbye() {
    let name = "mdns/_ipp._tcp/p";
    let wish = "mdns/_ipp._tcp/p*";
    let first = || {
        let asked = not_heard(story(), "a", 0, (wish, "p"));
        granted_one_of(asked, "a", [0, 10], (name, "p"), ("L1", 1, 1_000))
    };
    let next = |story, when: [u64; 2]| {
        let asked = not_heard(story, "b", when[0], (wish, "p"));
        granted_one_of(asked, "b", when, (name, "p"), ("L2", 2, 1_000))
    };
    next(gives_up(first(), "L1", 50, Some(60)), [70, 80]).ended("L1", [90, 95], "explicit").passes();
    // The name comes free after the answer.
    gives_up(first(), "L1", 50, Some(60)).refused_of("x", [70, 80], name, "L1").passes();
    next(first(), [70, 80]).breaks(&[Rule::PromisesNeverOverlap, Rule::Linearizable]);
    first().ended("L1", [500, 510], "heartbeat_expired").breaks(&[Rule::PromisesAreKept]);
    // Unregistered, acknowledged and still there.
    let seen_again = seen(gives_up(first(), "L1", 50, Some(60)), name, [70, 80], ("L1", "p", 1));
    seen_again.breaks(&[Rule::Linearizable]);
    gives_up(first(), "L1", 50, None)
        .ended("L1", [500, 510], "heartbeat_expired")
        .breaks(&[Rule::PromisesAreKept]);
}

/// A hand-over is a release and a grant in one step, under one id.
fn handed_over(story: Story, when: [u64; 2], next: &str, fence: u64) -> Story {
    let release = Asked::Release { lease: "L1.1".to_owned() };
    let released = story.push("move", release, when[0], Some((when[1], Heard::Released)));
    granted_one_of(released, "move", when, ("poll/g/t", "pb"), (next, fence, 500))
}

#[test]
fn a_target_goes_from_one_session_to_the_next() {
    let polled = || granted_one_of(story(), "a", [0, 10], ("poll/g/t", "pa"), ("L1.1", 1, 1_000));
    handed_over(polled(), [50, 60], "L1.2", 2).renewed("L1.2", [100, 110], 1_000).passes();
    // The one before goes on.
    handed_over(polled(), [50, 60], "L1.2", 2)
        .renewed("L1.1", [100, 110], 1_000)
        .breaks(&[Rule::Linearizable]);
    handed_over(polled(), [50, 60], "L1.2", 1).breaks(&[Rule::FencesRise]);
    let seen_before =
        seen(handed_over(polled(), [50, 60], "L1.2", 2), "poll/g/t", [70, 80], ("L1.1", "pa", 1));
    seen_before.breaks(&[Rule::Linearizable]);
    // Two sessions were told that it is theirs.
    granted_one_of(
        handed_over(polled(), [50, 60], "L1.2", 2),
        "c",
        [70, 80],
        ("poll/g/t", "pc"),
        ("L2.1", 3, 400),
    )
    .breaks(&[Rule::PromisesNeverOverlap, Rule::Linearizable]);
}

#[test]
fn a_lease_that_only_a_check_saw_is_one_that_somebody_may_have_been_granted() {
    let open = || {
        let first = granted_one_of(story(), "a", [0, 10], ("poll/g/t", "pa"), ("L1.1", 1, 100));
        not_heard(first.released("L1.1", [20, 30]), "b", 40, ("poll/g/t", "pa"))
    };
    seen(open(), "poll/g/t", [50, 60], ("L2.1", "pa", 2)).passes();
    // Two of them, and one request whose outcome nobody heard.
    let twice = seen(open(), "poll/g/t", [50, 60], ("L2.1", "pa", 2));
    seen(twice, "poll/g/t", [70, 80], ("L3.1", "pa", 3)).breaks(&[Rule::OneOperationOneLease]);
    seen(open(), "poll/g/u", [50, 60], ("L2.1", "pa", 2)).breaks(&[Rule::NothingFromNowhere]);
}

#[test]
fn each_application_is_counted() {
    let story = gives_up(connected(), "L1", 100, None);
    let story = seen(story, "tuner/1", [0, 1], ("L7", "x", 7));
    let counts = check(&story.0).applications;
    assert_eq!(counts[&Application::Connections].operations, 2, "{counts:?}");
    assert_eq!(counts[&Application::Slots].operations, 1, "{counts:?}");
}
