//! RFC 3339 times as JetStream writes them, to and from milliseconds since the Unix epoch.

const DAY_MS: i64 = 86_400_000;

/// `2024-02-29T12:00:00.123Z`. Times before year 0 or after 9999 are clamped.
pub fn format(wall_ms: i64) -> String {
    let wall_ms = wall_ms.clamp(-62_167_219_200_000, 253_402_300_799_999);
    let (days, in_day) = (wall_ms.div_euclid(DAY_MS), wall_ms.rem_euclid(DAY_MS));
    let (year, month, day) = date_of(days);
    let (seconds, millis) = (in_day / 1000, in_day % 1000);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

/// Reads a UTC time with any number of fraction digits, rounding down to milliseconds; `None` for anything else.
pub fn parse(text: &str) -> Option<i64> {
    let (date, clock) = text.strip_suffix('Z')?.split_once('T')?;
    let [year, month, day] = numbers(date, '-')?;
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, ""));
    let [hour, minute, second] = numbers(clock, ':')?;
    if !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let millis: i64 = format!("{fraction:0<3}").get(..3)?.parse().ok()?;
    let in_day = ((hour * 60 + minute) * 60 + second) * 1000 + millis;
    Some(days_of(year, month, day) * DAY_MS + in_day)
}

/// Three short decimal numbers, so that arithmetic on them cannot overflow.
fn numbers(text: &str, separator: char) -> Option<[i64; 3]> {
    let mut parts = text.split(separator);
    let mut next = || parts.next().filter(|p| p.len() <= 4 && p.bytes().all(|b| b.is_ascii_digit()))?.parse().ok();
    let numbers = [next()?, next()?, next()?];
    parts.next().is_none().then_some(numbers)
}

/// Days since the epoch of a date in the proleptic Gregorian calendar (years counted from March, in 400-year eras).
fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + day_of_year - 719_468
}

fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let day_of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let (day, month) = (day_of_year - (153 * shifted + 2) / 5 + 1, (shifted + 2) % 12 + 1);
    let year = year + era * 400;
    (if month <= 2 { year + 1 } else { year }, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_go_there_and_back() {
        let known = [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_709_210_096_789, "2024-02-29T12:34:56.789Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        ];
        for (wall_ms, text) in known {
            assert_eq!(format(wall_ms), text);
            assert_eq!(parse(text), Some(wall_ms));
        }
        for day in (-719_528..2_932_000).step_by(17) {
            assert_eq!(parse(&format(day * DAY_MS)), Some(day * DAY_MS));
        }
        assert_eq!(format(i64::MAX), "9999-12-31T23:59:59.999Z");
    }

    #[test]
    fn fractions_of_every_length_are_read_and_nonsense_is_not() {
        assert_eq!(parse("1970-01-01T00:00:01Z"), Some(1000));
        assert_eq!(parse("1970-01-01T00:00:00.5Z"), Some(500));
        assert_eq!(parse("1970-01-01T00:00:00.123456789Z"), Some(123));
        for bad in ["", "Z", "1970-01-01", "1970-01-01T00:00:00", "1970-01-01T00:00:00.-1Z", "1970-1-1-1T0:0:0Z"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
        assert_eq!(parse("99999-01-01T00:00:00Z"), None);
    }
}
