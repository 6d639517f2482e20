//! What a layer's timers have to do with the events of a run.

/// A type of timers, and its place among all timers of its layer.
pub trait Timer: Copy {
    /// The timers of all models of the layer.
    type Layer;

    /// The timer as one of its layer.
    fn into_layer(self) -> Self::Layer;

    /// The timer, if one of its layer is of this type.
    fn from_layer(timer: Self::Layer) -> Option<Self>;
}

/// One enumeration of timers of several types, and each one's place in it.
macro_rules! timers {
    ($all:ident, $doc:literal: $($name:ident($timer:ty)),+ $(,)?) => {
        #[doc = $doc]
        #[derive(Clone, Copy, Debug)]
        #[expect(missing_docs, reason = "each variant holds the timer of the model it is named after")]
        pub enum $all {
            $($name($timer)),+
        }
        $(
            impl $crate::timer::Timer for $timer {
                type Layer = $all;

                #[inline(always)]
                fn into_layer(self) -> $all {
                    $all::$name(self)
                }

                #[inline(always)]
                fn from_layer(timer: $all) -> Option<$timer> {
                    match timer {
                        $all::$name(timer) => Some(timer),
                        _ => None,
                    }
                }
            }
        )+
    };
}

pub(crate) use timers;
