//! Plain convolutional networks, layer upon layer without shortcuts or batch norm: AlexNet and VGG-16, derived from their
//! architecture.
//!
//! Images of 224 x 224 and 1000 classes. Convolutions with a bias, each followed by ReLU and some by a maximum pool; then
//! three fully connected layers, `fc6` and `fc7` of 4096 features with ReLU and dropout, and `fc8`, the classifier.
//!
//! * *AlexNet* in one tower (Krizhevsky: "One weird trick for parallelizing convolutional neural networks", 2014, which
//!   torchvision's follows): five convolutions of 64, 192, 384, 256 and 256 channels, no groups and no local response
//!   normalisation. The network of 2012 had two towers, one on each of two GPUs: 60.97 million parameters with its groups,
//!   62.38 million without; this one has 61.10.
//! * *VGG-16* (Simonyan and Zisserman: "Very Deep Convolutional Networks for Large-Scale Image Recognition", ICLR 2015,
//!   configuration D): five blocks of two or three 3 x 3 convolutions of 64, 128, 256, 512 and 512 channels, with a 2 x 2
//!   maximum pool of stride 2 behind each block.
//!
//! A [`Layer`] is a convolution with the kernels up to the next one, or a fully connected layer with what follows it.
//! Names are those of the Caffe models. Left out: torchvision's adaptive pool before `fc6`, which changes nothing at this
//! size of images, and AlexNet's dropout of the pooled features (its `fc6` and `fc7` have it in front, as many elements
//! more as the last pool has); here dropout follows `fc6` and `fc7`, as in both papers.

use crate::layer::Layer;
use crate::operators::{
    Conv2d, ImageShape, LayerPlan, bias, dropout, fully_connected, max_pool, relu, softmax_cross_entropy,
};
use crate::sizes::Sizes;

const CLASSES: u32 = 1000;
const FEATURES: u32 = 4096;
const IMAGE: u32 = 224;

/// A square maximum pool without padding.
#[derive(Clone, Copy)]
struct Pool {
    window: u32,
    stride: u32,
}

/// A convolution by name, and whether a pool follows it.
type Convolution = (&'static str, Conv2d, Option<Pool>);

/// AlexNet in one tower: 8 layers and 61,100,840 parameters. Demand beyond 64 bits saturates; [`crate::models::build`]
/// refuses it.
pub fn alexnet(sizes: &Sizes) -> Vec<Layer> {
    layers(&alexnet_convolutions(), sizes)
}

/// VGG-16 (configuration D): 16 layers and 138,357,544 parameters. Demand beyond 64 bits saturates;
/// [`crate::models::build`] refuses it.
pub fn vgg16(sizes: &Sizes) -> Vec<Layer> {
    layers(&vgg16_convolutions(), sizes)
}

fn alexnet_convolutions() -> Vec<Convolution> {
    let pool = Some(Pool { window: 3, stride: 2 });
    vec![
        ("conv1", Conv2d { channels: 64, kernel: 11, stride: 4, padding: 2 }, pool),
        ("conv2", Conv2d { channels: 192, kernel: 5, stride: 1, padding: 2 }, pool),
        ("conv3", three(384), None),
        ("conv4", three(256), None),
        ("conv5", three(256), pool),
    ]
}

fn vgg16_convolutions() -> Vec<Convolution> {
    let pool = Some(Pool { window: 2, stride: 2 });
    vec![
        ("conv1_1", three(64), None),
        ("conv1_2", three(64), pool),
        ("conv2_1", three(128), None),
        ("conv2_2", three(128), pool),
        ("conv3_1", three(256), None),
        ("conv3_2", three(256), None),
        ("conv3_3", three(256), pool),
        ("conv4_1", three(512), None),
        ("conv4_2", three(512), None),
        ("conv4_3", three(512), pool),
        ("conv5_1", three(512), None),
        ("conv5_2", three(512), None),
        ("conv5_3", three(512), pool),
    ]
}

/// A 3 x 3 convolution that keeps the size of the image.
fn three(channels: u32) -> Conv2d {
    Conv2d { channels, kernel: 3, stride: 1, padding: 1 }
}

fn layers(convolutions: &[Convolution], sizes: &Sizes) -> Vec<Layer> {
    let Sizes { batch, element_bytes, counted, .. } = *sizes;
    plans(convolutions, batch, element_bytes)
        .into_iter()
        .enumerate()
        .map(|(i, (plan, _))| plan.build(i == 0, element_bytes, counted))
        .collect()
}

/// The layers in forward order, each with the shape that leaves it.
fn plans(convolutions: &[Convolution], batch: u32, bytes: u32) -> Vec<(LayerPlan, ImageShape)> {
    let mut shape = ImageShape { batch, channels: 3, height: IMAGE, width: IMAGE };
    let mut layers = Vec::new();
    for &(name, conv, pool) in convolutions {
        let convolved = conv.output(shape);
        let mut plan = LayerPlan::new(name, conv.operator(shape, bytes))
            .followed_by(bias(convolved, bytes))
            .followed_by(relu(convolved.elements(), bytes));
        shape = convolved;
        if let Some(Pool { window, stride }) = pool {
            let (operator, pooled) = max_pool(shape, window, stride, 0, bytes);
            (plan, shape) = (plan.followed_by(operator), pooled);
        }
        layers.push((plan, shape));
    }
    let rows = u64::from(batch);
    let mut inputs = shape.channels * shape.height * shape.width;
    let flat = |channels| ImageShape { batch, channels, height: 1, width: 1 };
    for name in ["fc6", "fc7"] {
        let hidden = flat(FEATURES).elements();
        let plan = LayerPlan::new(name, fully_connected(rows, inputs, FEATURES, true, bytes))
            .followed_by(relu(hidden, bytes))
            .followed_by(dropout(hidden, bytes));
        layers.push((plan, flat(FEATURES)));
        inputs = FEATURES;
    }
    let classifier = LayerPlan::new("fc8", fully_connected(rows, inputs, CLASSES, true, bytes))
        .followed_by(softmax_cross_entropy(rows, CLASSES, bytes));
    layers.push((classifier, flat(CLASSES)));
    layers
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layer::{Cost, Demand};
    use crate::operators::Counted;
    use syncline_core::Bytes;

    fn sizes(batch: u32) -> Sizes {
        Sizes { batch, element_bytes: 4, counted: Counted::All, sequence: None, ranks: 1 }
    }

    fn kernels(cost: &Cost) -> &[Demand] {
        match cost {
            Cost::Kernels(kernels) => kernels,
            Cost::Measured(_) => panic!("a model has no measured times"),
        }
    }

    fn params(layers: &[Layer]) -> u64 {
        layers.iter().map(|l| l.params).sum()
    }

    /// Multiply-accumulates of the convolutions and the fully connected layers, each the first kernel of its layer.
    fn forward_macs(layers: &[Layer]) -> u64 {
        layers.iter().map(|l| kernels(&l.forward)[0].flops / 2).sum()
    }

    /// torchvision's documentation has 61100840 and 138357544 parameters.
    #[test]
    fn published_parameters() {
        assert_eq!(params(&alexnet(&sizes(1))), 61_100_840);
        assert_eq!(params(&vgg16(&sizes(1))), 138_357_544);
        // Nearly all of them are in the layer behind the last pool: what makes these networks communicate.
        let share = |layers: &[Layer], name: &str| {
            layers.iter().find(|l| l.name == name).unwrap().params as f64 / params(layers) as f64
        };
        assert_eq!((share(&alexnet(&sizes(1)), "fc6") * 100.0) as u32, 61);
        assert_eq!((share(&vgg16(&sizes(1)), "fc6") * 100.0) as u32, 74);
    }

    /// torchvision's documentation has 0.71 and 15.47 billion; Canziani et al. ("An Analysis of Deep Neural Network
    /// Models for Practical Applications", 2016) and others round the latter to 15.5.
    #[test]
    fn published_multiply_accumulates() {
        assert_eq!(forward_macs(&alexnet(&sizes(1))), 714_188_480);
        assert_eq!(forward_macs(&vgg16(&sizes(1))), 15_470_264_320);
        assert_eq!(forward_macs(&alexnet(&sizes(128))), 128 * 714_188_480);
    }

    #[test]
    fn layers_and_gradients() {
        for (layers, count) in [(alexnet(&sizes(4)), 8), (vgg16(&sizes(4)), 16)] {
            assert_eq!(layers.len(), count);
            assert!(layers.iter().all(|l| l.gradient == Bytes(4 * l.params) && l.params > 0));
            let mut names: Vec<_> = layers.iter().map(|l| &l.name).collect();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), count);
            assert_eq!(layers.iter().position(|l| l.input_grad.is_nothing()), Some(0));
            assert_eq!(layers.iter().filter(|l| l.input_grad.is_nothing()).count(), 1);
        }
    }

    #[test]
    fn shapes_on_the_way() {
        let found = |convolutions: &[Convolution]| -> Vec<(u32, u32)> {
            let plans = plans(convolutions, 2, 4);
            assert!(plans.iter().all(|(_, s)| s.height == s.width && s.batch == 2));
            plans.iter().map(|(_, s)| (s.channels, s.height)).collect()
        };
        let alexnet = [(64, 27), (192, 13), (384, 13), (256, 13), (256, 6), (4096, 1), (4096, 1), (1000, 1)];
        assert_eq!(found(&alexnet_convolutions()), alexnet);
        let vgg = found(&vgg16_convolutions());
        assert_eq!(vgg[..4], [(64, 224), (64, 112), (128, 112), (128, 56)]);
        assert_eq!(vgg[4..10], [(256, 56), (256, 56), (256, 28), (512, 28), (512, 28), (512, 14)]);
        assert_eq!(vgg[10..], [(512, 14), (512, 14), (512, 7), (4096, 1), (4096, 1), (1000, 1)]);
    }

    #[test]
    fn layers_by_hand() {
        let layers = vgg16(&sizes(1));
        let layer = |name: &str| layers.iter().find(|l| l.name == name).unwrap();
        let bytes = |cost: &Cost| kernels(cost).iter().map(|k| k.bytes).collect::<Vec<_>>();
        let (x, y) = (4 * 128 * 112 * 112, 4 * 128 * 56 * 56); // an activation of the second block, and its pool's
        let weights = 4 * 128 * 128 * 9;
        // Convolution, bias, ReLU, pool.
        assert_eq!(bytes(&layer("conv2_2").forward), [2 * x + weights, 2 * x, 2 * x, x + y]);
        // Pool, ReLU, bias, convolution; then the gradient of the input.
        assert_eq!(bytes(&layer("conv2_2").weight_grad), [2 * (x + y), 3 * x, x, 2 * x + weights]);
        assert_eq!(bytes(&layer("conv2_2").input_grad), [2 * x + weights]);
        let hidden = 4 * 4096;
        // Matrix product with bias, ReLU, dropout with its mask of one byte.
        assert_eq!(bytes(&layer("fc7").forward)[1..], [2 * hidden, 2 * hidden + 4096]);
        assert_eq!(bytes(&layer("fc7").weight_grad)[..2], [2 * hidden + 4096, 3 * hidden]);
    }

    #[test]
    fn backward_is_twice_forward() {
        for (layers, least) in [(alexnet(&sizes(8)), 1.85), (vgg16(&sizes(8)), 1.98)] {
            let sum = |pass: fn(&Layer) -> &Cost| -> f64 {
                layers.iter().map(|l| pass(l).demand().unwrap().flops as f64).sum()
            };
            let ratio = (sum(|l| &l.input_grad) + sum(|l| &l.weight_grad)) / sum(|l| &l.forward);
            assert!((least..2.0).contains(&ratio), "{ratio}"); // the first layer has no input gradient
        }
    }
}
