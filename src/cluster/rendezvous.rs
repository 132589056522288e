//! Rendezvous hashing: everybody picks the same of several, and when one joins or leaves only its share moves.

/// The candidate that weighs most for `what`. Of equal weights the first.
pub fn pick<T>(what: &[u8], candidates: impl IntoIterator<Item = T>, name: impl Fn(&T) -> Vec<u8>) -> Option<T> {
    let mut best: Option<(u64, T)> = None;
    for candidate in candidates {
        let weight = weight(what, &name(&candidate));
        if best.as_ref().is_none_or(|(heaviest, _)| weight > *heaviest) {
            best = Some((weight, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// FNV-1a over both texts, mixed as splitmix64 does: all gateways must agree, whatever they were built with.
fn weight(what: &[u8], candidate: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    // A byte that neither holds parts the two.
    for byte in what.iter().chain(&[0xff]).chain(candidate) {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picks(candidates: &[i32]) -> Vec<i32> {
        let name = |id: &i32| id.to_string().into_bytes();
        let of = |n: i32| pick(format!("topic-{}/{}", n / 10, n % 10).as_bytes(), candidates.iter().copied(), name);
        (0..1000).map(|n| of(n).expect("there are candidates")).collect()
    }

    #[test]
    fn shares_are_even_and_only_the_share_of_who_comes_or_goes_moves() {
        let three = picks(&[1, 2, 3]);
        for id in [1, 2, 3] {
            let share = three.iter().filter(|picked| **picked == id).count();
            assert!((250..420).contains(&share), "{id} has {share} of 1000");
        }
        let four = picks(&[4, 3, 2, 1]);
        for (before, after) in three.iter().zip(&four) {
            assert!(after == before || *after == 4, "{before} moved to {after} when 4 came");
        }
        assert_eq!(pick(b"x", Vec::<i32>::new(), |_| Vec::new()), None);
    }

    #[test]
    fn the_choice_is_the_same_in_every_version() {
        assert_eq!(picks(&[1, 2, 3])[..12], [3, 3, 2, 1, 1, 2, 2, 3, 2, 1, 2, 3]);
    }
}
