//! Typed indices. Every entity of a simulation lives in a flat array and is named by an index of 32 bits or fewer,
//! so that a mix-up of two kinds of index does not compile.

/// A typed index: the number of an entity in a flat array.
pub trait Id: Copy {
    /// The index with this subscript.
    ///
    /// # Panics
    /// If the subscript does not fit.
    fn from_index(index: usize) -> Self;
    /// The index as a subscript.
    fn index(self) -> usize;
    /// The index after this one.
    ///
    /// # Panics
    /// If there is none.
    #[inline(always)]
    #[must_use]
    fn next(self) -> Self {
        Self::from_index(self.index() + 1)
    }
}

/// Declares a typed index of 32 bits, or of as many as the type behind its name has.
#[macro_export]
macro_rules! id_type {
    ($(#[$doc:meta])* $name:ident) => {
        $crate::id_type!($(#[$doc])* $name: u32);
    };
    ($(#[$doc:meta])* $name:ident: $width:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
        pub struct $name(pub $width);

        impl $name {
            /// The index as the subscript of a flat array.
            #[inline(always)]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl $crate::ids::Id for $name {
            #[inline(always)]
            fn from_index(index: usize) -> Self {
                let fits = $width::try_from(index);
                $name(fits.expect(concat!("more entities than ", stringify!($name), " has numbers")))
            }

            #[inline(always)]
            fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id_type!(
    /// An NPU or a switch of the simulated fabric.
    NodeId
);

/// A port of a node: an outgoing link on the sending side, an input buffer on the receiving side.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct PortId(pub u16);

impl PortId {
    /// The port as the subscript of a per-node array.
    #[inline(always)]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A set of nodes, as a flat array that is asked on every event.
#[derive(Clone, Debug)]
pub struct NodeSet(Vec<bool>);

impl NodeSet {
    /// The set of `members` among nodes numbered below `nodes`.
    ///
    /// # Panics
    /// If a member is not below `nodes`.
    pub fn new(nodes: u32, members: &[NodeId]) -> NodeSet {
        let mut set = vec![false; nodes as usize];
        members.iter().for_each(|n| set[n.index()] = true);
        NodeSet(set)
    }

    /// Whether a node is in the set.
    #[inline(always)]
    pub fn contains(&self, node: NodeId) -> bool {
        self.0[node.index()]
    }
}
