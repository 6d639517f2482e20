//! Sentences about ranks and calls.

/// `an all-reduce of 8 float32`, `a broadcast`: a call with its article.
pub(crate) fn with_article(call: &str) -> String {
    let vowel = call.chars().next().is_some_and(|first| "aeiou".contains(first.to_ascii_lowercase()));
    format!("{} {call}", if vowel { "an" } else { "a" })
}

/// `rank 2`, `ranks 2 and 5`, `ranks 2, 5 and 7`, and at most eight of them.
pub(crate) fn ranks(ranks: &[u32]) -> String {
    /// More numbers are not read.
    const MOST: usize = 8;
    let mut names: Vec<String> = ranks.iter().take(MOST).map(u32::to_string).collect();
    if ranks.len() > MOST {
        names.push(format!("{} others", ranks.len() - MOST));
    }
    match names.as_slice() {
        [] => "no rank".to_owned(),
        [one] => format!("rank {one}"),
        [first @ .., last] => format!("ranks {} and {last}", first.join(", ")),
    }
}

/// The verb for one or many.
pub(crate) fn verb(count: usize, one: &'static str, many: &'static str) -> &'static str {
    if count == 1 { one } else { many }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_ranks_read_as_sentences() {
        assert_eq!(ranks(&[3]), "rank 3");
        assert_eq!(ranks(&[3, 4]), "ranks 3 and 4");
        assert_eq!(ranks(&[3, 4, 9]), "ranks 3, 4 and 9");
        assert_eq!(ranks(&(0..100).collect::<Vec<_>>()), "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 92 others");
        assert_eq!(with_article("all-reduce"), "an all-reduce");
        assert_eq!(with_article("broadcast"), "a broadcast");
    }
}
