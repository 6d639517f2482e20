//! Splits: ranks of a communicator find out which of them make a new one.

use crate::abi::{NO_COLOR, result};
use crate::error::Error;
use serde::{Deserialize, Serialize};
use std::ffi::c_int;
use syncline_runtime::bootstrap::{Failure, Options, UniqueId};
use syncline_runtime::communicator::Communicator;

/// The place of a rank in a communicator that a split makes.
pub(crate) struct Part {
    pub(crate) id: UniqueId,
    pub(crate) rank: u32,
    pub(crate) ranks: u32,
}

/// What a rank asks for in a split.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Wish {
    color: c_int,
    key: c_int,
}

/// The ranks with a color, ordered by key, then by rank.
fn with_color(wishes: &[Wish], color: c_int) -> Vec<u32> {
    let mut ranks: Vec<u32> = (0..wishes.len() as u32).filter(|&rank| wishes[rank as usize].color == color).collect();
    ranks.sort_by_key(|&rank| (wishes[rank as usize].key, rank));
    ranks
}

/// Splits: all ranks of the parent tell their color and key, and the first rank of each color sends an id. Nothing
/// for a rank without color.
pub(crate) fn split(parent: &Communicator, color: c_int, key: c_int, options: &Options) -> Result<Option<Part>, Error> {
    let own = parent.rank();
    let ours = |failure: Failure| Error::of_failure(&failure, own);
    let unreadable = |error: serde_json::Error| {
        Error::new(result::INTERNAL, format!("a rank has sent what cannot be read in ncclCommSplit: {error}"))
    };
    let told = parent.exchange(&serde_json::to_vec(&Wish { color, key }).map_err(unreadable)?).map_err(ours)?;
    let wishes: Vec<Wish> =
        told.iter().map(|text| serde_json::from_slice(text)).collect::<Result<_, _>>().map_err(unreadable)?;
    let ranks = with_color(&wishes, color);
    let leads = color != NO_COLOR && ranks[0] == own;
    let id = leads.then(|| UniqueId::create(options));
    let part = id.map(|id| id.map(|id| id.as_bytes().to_vec()));
    let sent = parent.exchange(&serde_json::to_vec(&part).map_err(unreadable)?).map_err(ours)?;
    if color == NO_COLOR {
        return Ok(None);
    }
    let made: Option<Result<Vec<u8>, Failure>> =
        serde_json::from_slice(&sent[ranks[0] as usize]).map_err(unreadable)?;
    let bytes = made.unwrap_or(Ok(Vec::new())).map_err(ours)?;
    let wrong = || Error::new(result::INTERNAL, format!("rank {} has sent no id in ncclCommSplit", ranks[0]));
    let id = UniqueId::from_bytes(&bytes.try_into().map_err(|_| wrong())?).map_err(ours)?;
    let place = ranks.iter().position(|&rank| rank == own).expect("the own color is that of this rank");
    Ok(Some(Part { id, rank: place as u32, ranks: ranks.len() as u32 }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_order_ranks_and_ranks_break_ties() {
        let wish = |color, key| Wish { color, key };
        let wishes = [wish(1, 5), wish(0, 0), wish(1, -2), wish(-1, 0), wish(1, 5)];
        assert_eq!(with_color(&wishes, 1), [2, 0, 4]);
        assert_eq!(with_color(&wishes, 0), [1]);
    }
}
