//! Which communicators are alike.

use super::CohortId;
use std::collections::BTreeMap;
use syncline_core::{Id, NodeId};
use syncline_workload::{ClassId, FamilyId};

/// A communicator: its family, and its members by rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its family.
    pub family: FamilyId,
    /// The number of the override that says how its collectives are carried out, if the family does not.
    pub own_way: Option<u16>,
    /// Its members.
    pub members: Vec<NodeId>,
}

/// Communicators by cohort.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signed {
    /// By cohort, its family and the numbers of its groups. Cohorts are in the order of families, and of their first groups.
    pub cohorts: Vec<(FamilyId, Vec<usize>)>,
    /// By NPU, its colour: NPUs of equal colour are of the same class and in the same cohorts.
    pub colours: Vec<u32>,
    /// By colour, the class and the cohorts.
    pub roles: Vec<(ClassId, Vec<CohortId>)>,
}

/// Numbers for keys, in the order in which they are first asked for.
fn numbered<K: Ord + Clone>(keys: impl Iterator<Item = K>) -> (Vec<u32>, Vec<K>) {
    let mut known = BTreeMap::new();
    let mut order = Vec::new();
    let mut number = |key: K| {
        *known.entry(key.clone()).or_insert_with(|| {
            order.push(key);
            order.len() as u32 - 1
        })
    };
    let numbers = keys.map(&mut number).collect();
    (numbers, order)
}

/// Sorts communicators, of which an NPU is in at most one of each family, into cohorts; `classes` are those of all NPUs.
///
/// Communicators of a family that are carried out in ways of their own are told apart; colours are refined until communicators of a cohort have members of the same colours, and NPUs of a colour are in
/// communicators of the same cohorts.
pub fn sign(groups: &[Group], classes: &[ClassId]) -> Signed {
    let mut colours: Vec<u32> = numbered(classes.iter()).0;
    loop {
        let signature = |group: &Group| {
            let members: Vec<u32> = group.members.iter().map(|npu| colours[npu.index()]).collect();
            (group.family, group.own_way, members)
        };
        let (of_group, signatures) = numbered(groups.iter().map(signature));
        let mut cohorts_of = vec![Vec::new(); classes.len()];
        for (group, &cohort) in groups.iter().zip(&of_group) {
            group.members.iter().for_each(|npu| cohorts_of[npu.index()].push(cohort));
        }
        cohorts_of.iter_mut().for_each(|cohorts| cohorts.sort_unstable());
        let (refined, keys) = numbered(classes.iter().zip(&cohorts_of));
        if refined == colours {
            return in_order(groups, &of_group, &signatures, (colours, keys));
        }
        colours = refined;
    }
}

/// The result, with cohorts in the order of families.
fn in_order(
    groups: &[Group],
    of_group: &[u32],
    signatures: &[(FamilyId, Option<u16>, Vec<u32>)],
    (colours, keys): (Vec<u32>, Vec<(&ClassId, &Vec<u32>)>),
) -> Signed {
    let mut order: Vec<usize> = (0..signatures.len()).collect();
    order.sort_by_key(|&cohort| (signatures[cohort].0, cohort));
    let mut place = vec![CohortId::default(); order.len()];
    order.iter().enumerate().for_each(|(at, &cohort)| place[cohort] = CohortId::from_index(at));
    let mut cohorts: Vec<(FamilyId, Vec<usize>)> = order.iter().map(|&c| (signatures[c].0, Vec::new())).collect();
    for (group, &cohort) in of_group.iter().enumerate().take(groups.len()) {
        cohorts[place[cohort as usize].index()].1.push(group);
    }
    let role = |(class, cohorts): (&ClassId, &Vec<u32>)| {
        let mut cohorts: Vec<CohortId> = cohorts.iter().map(|&c| place[c as usize]).collect();
        cohorts.sort_unstable();
        (*class, cohorts)
    };
    let roles = keys.into_iter().map(role);
    Signed { cohorts, roles: roles.collect(), colours }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(family: u8, members: &[u32]) -> Group {
        Group { family: FamilyId(family), own_way: None, members: members.iter().copied().map(NodeId).collect() }
    }

    fn cohorts(signed: &Signed) -> Vec<(u8, Vec<usize>)> {
        signed.cohorts.iter().map(|(family, groups)| (family.0, groups.clone())).collect()
    }

    #[test]
    fn equal_groups_of_one_class_are_a_cohort_of_each_family() {
        // Tensor pairs and data pairs of four NPUs.
        let groups = [group(0, &[0, 1]), group(0, &[2, 3]), group(1, &[0, 2]), group(1, &[1, 3])];
        let signed = sign(&groups, &[ClassId(0); 4]);
        assert_eq!(cohorts(&signed), [(0, vec![0, 1]), (1, vec![2, 3])]);
        assert_eq!(signed.roles, [(ClassId(0), vec![CohortId(0), CohortId(1)])]);
    }

    #[test]
    fn unequal_groups_and_other_classes_have_cohorts_of_their_own() {
        let signed = sign(&[group(0, &[0, 1, 2]), group(0, &[3, 4, 5, 6, 7])], &[ClassId(0); 8]);
        assert_eq!(cohorts(&signed), [(0, vec![0]), (0, vec![1])]);
        // Two stages of two NPUs: tensor pairs within them, pipelines across.
        let groups = [group(1, &[0, 2]), group(1, &[1, 3]), group(0, &[0, 1]), group(0, &[2, 3])];
        let signed = sign(&groups, &[ClassId(0), ClassId(0), ClassId(1), ClassId(1)]);
        assert_eq!(cohorts(&signed), [(0, vec![2]), (0, vec![3]), (1, vec![0, 1])]);
        assert_eq!(signed.roles[1], (ClassId(1), vec![CohortId(1), CohortId(2)]));
    }

    #[test]
    fn a_difference_in_one_family_spreads_to_the_others() {
        // All of one class. The pairs of family 0 are alike but for what family 1 makes of one of them.
        let groups = [group(0, &[0, 1]), group(0, &[2, 3]), group(1, &[0])];
        let signed = sign(&groups, &[ClassId(0); 4]);
        assert_eq!(cohorts(&signed), [(0, vec![0]), (0, vec![1]), (1, vec![2])]);
        assert_eq!(signed.colours[2], signed.colours[3]);
        assert_ne!(signed.colours[0], signed.colours[1]);
    }
}
