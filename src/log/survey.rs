//! The bounds of many logs at once, for people: from what is known here and the end entries, without loading a log.

use crate::catalog::Topic;
use crate::log::{Logs, end};
use crate::store::{Sequence, StoreResult, StreamState};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

/// Up to so many entries are asked for one by one, more are listed.
const SINGLE_READS_MAX: usize = 16;

/// A partition to be told of.
pub struct Surveyed<'a> {
    pub topic: &'a Arc<Topic>,
    pub partition: i32,
    /// The stream as it was just seen.
    pub state: &'a StreamState,
    /// The stream's first sequence of all; messages from there on were never removed if they are still there.
    pub born: Option<Sequence>,
}

/// A log's bounds, and which of them are certain. An uncertain one is a lower bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    pub log_start: i64,
    pub start_is_exact: bool,
    pub next_offset: i64,
    pub next_is_exact: bool,
}

/// What one source says of a log: the watermark that accounts for the messages up to `last`, and the log's start, which
/// was looked at when the stream began with `first`.
struct Word {
    log_start: i64,
    first: Option<Sequence>,
    next_offset: i64,
    last: Sequence,
}

impl Logs {
    /// Tells the bounds in the order asked. Costs the store nothing where the logs in memory know all, otherwise one list.
    pub fn survey(&self, asked: &[Surveyed<'_>], deadline: Instant) -> StoreResult<Vec<Bounds>> {
        let mut told: Vec<Bounds> = asked.iter().map(|one| bounds(one, &self.words(one))).collect();
        let open: Vec<usize> = (0..asked.len()).filter(|at| !told[*at].next_is_exact).collect();
        if open.is_empty() {
            return Ok(told);
        }
        let store = &*self.shared.store;
        let key = |at: usize| end::key(asked[at].topic.id, asked[at].partition);
        let mut anchors = HashMap::new();
        if open.len() <= SINGLE_READS_MAX {
            for at in &open {
                anchors.extend(end::anchors(store, &key(*at), deadline)?);
            }
        } else {
            anchors = end::anchors(store, ">", deadline)?;
        }
        for at in open {
            let mut words = self.words(&asked[at]);
            let Some(anchor) = anchors.get(&key(at)) else {
                if words.is_empty() && asked[at].state.messages == 0 {
                    // Without an entry no offset was ever given.
                    told[at] = Bounds { start_is_exact: true, next_is_exact: true, ..Bounds::default() };
                }
                continue;
            };
            words.push(Word {
                log_start: anchor.log_start,
                first: None,
                next_offset: anchor.next_offset,
                last: anchor.sequence,
            });
            told[at] = bounds(&asked[at], &words);
        }
        Ok(told)
    }

    fn words(&self, one: &Surveyed<'_>) -> Vec<Word> {
        let known = self.get((one.topic.id, one.partition)).and_then(|log| log.known_view());
        let word = known.map(|view| Word {
            log_start: view.log_start,
            first: Some(view.first),
            next_offset: view.high_watermark,
            last: view.last,
        });
        word.into_iter().collect()
    }
}

fn bounds(one: &Surveyed<'_>, words: &[Word]) -> Bounds {
    let state = one.state;
    let next_offset = words.iter().map(|word| word.next_offset).max().unwrap_or(0);
    let next_is_exact = words.iter().any(|word| word.last >= state.last);
    let mut told = Bounds {
        log_start: words.iter().map(|word| word.log_start).max().unwrap_or(0),
        start_is_exact: false,
        next_offset,
        next_is_exact,
    };
    let untouched = one.born.is_some_and(|born| state.messages > 0 && state.first <= born);
    if state.messages == 0 && !words.is_empty() {
        told.log_start = next_offset;
        told.start_is_exact = next_is_exact;
    } else {
        // A mark that moves the start may be among messages that nobody has read yet.
        let seen = untouched || words.iter().any(|word| word.first == Some(state.first));
        told.start_is_exact = seen && next_is_exact;
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::TopicSettings;
    use crate::wire::Uuid;

    fn state(messages: u64, first: u64, last: u64) -> StreamState {
        StreamState { messages, bytes: 0, first: Sequence(first), last: Sequence(last) }
    }

    #[track_caller]
    fn check(state: StreamState, born: u64, words: &[Word], expected: (i64, bool, i64, bool)) {
        let settings = TopicSettings::default();
        let topic = Arc::new(Topic { id: Uuid::ZERO, name: "t".to_owned(), partitions: Vec::new(), settings });
        let one = Surveyed { topic: &topic, partition: 0, state: &state, born: Some(Sequence(born)) };
        let told = bounds(&one, words);
        assert_eq!((told.log_start, told.start_is_exact, told.next_offset, told.next_is_exact), expected);
    }

    fn word(log_start: i64, first: Option<u64>, next_offset: i64, last: u64) -> Word {
        Word { log_start, first: first.map(Sequence), next_offset, last: Sequence(last) }
    }

    #[test]
    fn what_is_not_certain_is_a_lower_bound() {
        // In memory and up to date; then with a message that came since.
        check(state(5, 100, 104), 100, &[word(0, Some(100), 50, 104)], (0, true, 50, true));
        check(state(6, 100, 105), 100, &[word(0, Some(100), 50, 104)], (0, false, 50, false));
        // The entry is ahead of memory.
        check(state(6, 100, 105), 100, &[word(0, Some(100), 50, 104), word(0, None, 60, 105)], (0, true, 60, true));
        // Retention has removed messages since anybody looked.
        check(state(3, 103, 105), 100, &[word(7, Some(101), 60, 105)], (7, false, 60, true));
        check(state(3, 103, 105), 100, &[word(7, None, 60, 105)], (7, false, 60, true));
        // Emptied, and never used.
        check(state(0, 106, 105), 100, &[word(7, None, 60, 105)], (60, true, 60, true));
        check(state(0, 100, 99), 100, &[], (0, false, 0, false));
        // Written by an older gateway or a stranger.
        check(state(3, 1, 3), 1, &[], (0, false, 0, false));
        // Records were deleted, and the messages are still there.
        check(state(5, 100, 104), 100, &[word(0, Some(100), 50, 103), word(20, None, 50, 104)], (20, true, 50, true));
    }
}
