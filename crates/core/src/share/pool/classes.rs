//! Flows of several classes: strict priority between classes, max-min fairness within one.
//!
//! What a class gets depends on itself and on larger classes only. So a change leaves the rates of larger classes as they
//! are; all others of the part around it are found anew, class by class, each from what is left. There is no lowest rate
//! below which nothing changes, as in a pool of one class: a flow of a large class that ends may let in one that had
//! nothing.

use super::{GroupId, Pool, ResourceId, Touched};
use crate::share::Share;
use std::cmp::Reverse;

/// Classes of flows.
pub const CLASSES: u8 = 8;

/// The classes of the groups that are there.
#[derive(Clone, Debug, Default)]
pub(super) struct Classes {
    groups: [u32; CLASSES as usize],
    /// The largest one of which something has come or gone since the last recomputation.
    touched: u8,
}

impl Classes {
    /// A group comes; says whether there are several classes now.
    pub fn come(&mut self, class: u8) -> bool {
        self.groups[usize::from(class)] += 1;
        self.are_several()
    }

    /// A group goes.
    pub fn go(&mut self, class: u8) {
        self.groups[usize::from(class)] -= 1;
    }

    /// A flow of a class comes or goes.
    #[inline]
    pub fn touch(&mut self, class: u8) {
        self.touched = self.touched.max(class);
    }

    /// What has come and gone is taken into account.
    pub fn forget(&mut self) {
        self.touched = 0;
    }

    fn are_several(&self) -> bool {
        self.groups.iter().filter(|&&groups| groups > 0).count() > 1
    }
}

impl Pool {
    /// The class of a group.
    #[inline]
    pub fn class(&self, id: GroupId) -> u8 {
        self.groups[id].class
    }

    /// Whether flows of several classes are there.
    pub fn is_mixed(&self) -> bool {
        self.classes.are_several()
    }

    /// Shares everything out where there are several classes, or have been.
    pub(super) fn recompute_by_class(&mut self) {
        let largest = self.classes.touched;
        let mut touched = std::mem::take(&mut self.touched);
        for &resource in &touched {
            self.resources[resource.index()].touched = Touched::No;
            if self.resources[resource.index()].seen != self.seen {
                self.solve_part_by_class(resource, largest);
            }
        }
        touched.clear();
        (self.touched, self.lowest) = (touched, Share::UNLIMITED);
        self.classes.forget();
        self.mixed = self.classes.are_several();
    }

    /// Solves the part of a resource: what is connected by flows of classes up to `largest`.
    fn solve_part_by_class(&mut self, resource: ResourceId, largest: u8) {
        self.filling.clear();
        self.part.clear();
        let mut members: Vec<(u8, GroupId)> = Vec::new();
        self.see(resource);
        let mut next = 0;
        while next < self.part.len() {
            let resource = self.part[next];
            self.effort += self.resources[resource.index()].users.len() as u64;
            for user in 0..self.resources[resource.index()].users.len() {
                let id = self.resources[resource.index()].users[user].group;
                let group = &mut self.groups[id];
                if group.class > largest {
                    self.filling.take(next as u32, group.share.times(u64::from(group.count)));
                } else if group.seen != self.seen {
                    group.seen = self.seen;
                    let (first, uses) = (group.first, group.uses);
                    members.push((group.class, id));
                    for i in first..first + uses {
                        self.see(self.uses[i as usize].resource);
                    }
                }
            }
            next += 1;
        }
        members.sort_by_key(|&(class, _)| Reverse(class));
        for of_class in members.chunk_by(|a, b| a.0 == b.0) {
            self.effort += self.part.len() as u64;
            self.filling.clear_flows();
            self.members.clear();
            self.members.extend(of_class.iter().map(|&(_, id)| id));
            for &(_, id) in of_class {
                self.add_to_problem(id);
            }
            self.filling.solve();
            self.take_shares();
        }
        self.take_uses();
    }
}
