//! Residual networks (He et al.: "Deep Residual Learning for Image Recognition", CVPR 2016), derived
//! from their architecture.
//!
//! Images of 224 x 224 and 1000 classes. The stem is a 7 x 7 convolution of stride 2 with 64 channels
//! and a 3 x 3 maximum pool of stride 2; four stages of blocks follow, at 56, 28, 14 and 7 pixels; then
//! the average over each channel and a fully connected layer. A *basic* block is two 3 x 3
//! convolutions, a *bottleneck* 1 x 1, 3 x 3 and 1 x 1 with four times the channels. Every convolution is
//! followed by batch norm, and that by ReLU, except that the last one of a block adds the shortcut
//! first. The shortcut is a 1 x 1 convolution with batch norm where the shape changes (option B of the
//! paper).
//!
//! The first block of stages 2 to 4 halves the image. Bottlenecks do so in their 3 x 3 convolution,
//! which is "v1.5", what today's frameworks call ResNet-50 (4.09 billion multiply-accumulates per
//! image); the paper's 1 x 1 ("v1") takes 3.86 billion with the same parameters.
//!
//! A [`Layer`] is a convolution with its batch norm and the kernels up to the next convolution, or the
//! fully connected layer with pooling's result as input and the loss behind. Names and order are
//! torchvision's; a block's shortcut comes last, so its layer carries the addition. The gradients of
//! the two ways out of a block's input are added in the input gradient of the block's first
//! convolution, whose turn in the backward pass comes last.

use crate::layer::Layer;
use crate::operators::{
    Conv2d, ImageShape, LayerPlan, add, batch_norm, fork, fully_connected, global_average_pool, max_pool, relu,
    softmax_cross_entropy,
};
use crate::sizes::Sizes;

const CLASSES: u32 = 1000;
const STAGE_CHANNELS: [u32; 4] = [64, 128, 256, 512];

/// The kinds of residual blocks.
#[derive(Clone, Copy)]
enum Block {
    Basic,
    Bottleneck,
}

impl Block {
    /// The convolutions on a block's main path at `channels`, the first block of a stage with its `stride`.
    fn convolutions(self, channels: u32, stride: u32) -> Vec<Conv2d> {
        let one = |channels| Conv2d { channels, kernel: 1, stride: 1, padding: 0 };
        let three = |stride| Conv2d { channels, kernel: 3, stride, padding: 1 };
        match self {
            Block::Basic => vec![three(stride), three(1)],
            Block::Bottleneck => vec![one(channels), three(stride), one(4 * channels)],
        }
    }
}

/// ResNet-18: 21 layers (16 convolutions in 8 basic blocks, 3 shortcuts, the stem, the classifier) and
/// 11,689,512 parameters, `batch` images with elements of `element_bytes`. Demand beyond 64 bits
/// saturates; [`crate::models::build`] refuses it.
pub fn resnet18(sizes: &Sizes) -> Vec<Layer> {
    resnet(Block::Basic, [2, 2, 2, 2], sizes)
}

/// ResNet-50 v1.5: 54 layers (48 convolutions in 16 bottlenecks, 4 shortcuts, the stem, the
/// classifier) and 25,557,032 parameters, `batch` images with elements of `element_bytes`. Demand
/// beyond 64 bits saturates; [`crate::models::build`] refuses it.
pub fn resnet50(sizes: &Sizes) -> Vec<Layer> {
    resnet(Block::Bottleneck, [3, 4, 6, 3], sizes)
}

fn resnet(block: Block, blocks: [u32; 4], sizes: &Sizes) -> Vec<Layer> {
    let Sizes { batch, element_bytes, counted, .. } = *sizes;
    plans(block, blocks, batch, element_bytes)
        .into_iter()
        .enumerate()
        .map(|(i, (plan, _))| plan.build(i == 0, element_bytes, counted))
        .collect()
}

/// The layers in forward order, each with the shape that leaves it.
fn plans(block: Block, blocks: [u32; 4], batch: u32, bytes: u32) -> Vec<(LayerPlan, ImageShape)> {
    let image = ImageShape { batch, channels: 3, height: 224, width: 224 };
    let stem = Conv2d { channels: 64, kernel: 7, stride: 2, padding: 3 };
    let (plan, shape) = normalised("conv1".into(), stem, image, bytes);
    let (pool, mut shape) = max_pool(shape, 3, 2, 1, bytes);
    let mut layers = vec![(plan.followed_by(relu(stem.output(image).elements(), bytes)).followed_by(pool), shape)];
    for (stage, (&channels, &count)) in STAGE_CHANNELS.iter().zip(&blocks).enumerate() {
        for index in 0..count {
            let stride = if stage > 0 && index == 0 { 2 } else { 1 };
            let convolutions = block.convolutions(channels, stride);
            let name = format!("layer{}.{index}", stage + 1);
            shape = residual_block(&mut layers, &name, &convolutions, stride, shape, bytes);
        }
    }
    let (pool, pooled) = global_average_pool(shape, bytes);
    let (last, _) = layers.pop().expect("the stem at least");
    layers.push((last.followed_by(pool), pooled));
    let classifier = LayerPlan::new("fc", fully_connected(batch.into(), pooled.channels, CLASSES, true, bytes))
        .followed_by(softmax_cross_entropy(batch.into(), CLASSES, bytes));
    layers.push((classifier, ImageShape { channels: CLASSES, ..pooled }));
    layers
}

/// Appends a block's layers and returns the shape of its output.
fn residual_block(
    layers: &mut Vec<(LayerPlan, ImageShape)>,
    name: &str,
    convolutions: &[Conv2d],
    stride: u32,
    input: ImageShape,
    bytes: u32,
) -> ImageShape {
    let mut shape = input;
    for (i, &conv) in convolutions.iter().enumerate() {
        let (mut plan, output) = normalised(format!("{name}.conv{}", i + 1), conv, shape, bytes);
        shape = output;
        if i == 0 {
            plan = plan.preceded_by(fork(input.elements(), bytes));
        }
        if i + 1 < convolutions.len() {
            plan = plan.followed_by(relu(shape.elements(), bytes));
        }
        layers.push((plan, shape));
    }
    if shape != input {
        let project = Conv2d { channels: shape.channels, kernel: 1, stride, padding: 0 };
        let (plan, projected) = normalised(format!("{name}.downsample"), project, input, bytes);
        assert_eq!(projected, shape, "both ways through a block end in the same shape");
        layers.push((plan, shape));
    }
    let (last, shape) = layers.pop().expect("a block has convolutions");
    layers.push((last.followed_by(add(shape.elements(), bytes)).followed_by(relu(shape.elements(), bytes)), shape));
    shape
}

/// A convolution with batch norm behind it, and the shape of the output.
fn normalised(name: String, conv: Conv2d, input: ImageShape, bytes: u32) -> (LayerPlan, ImageShape) {
    let output = conv.output(input);
    (LayerPlan::new(name, conv.operator(input, bytes)).followed_by(batch_norm(output, bytes)), output)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layer::{Cost, Demand};
    use crate::operators::Counted;
    use syncline_core::Bytes;

    fn sizes(batch: u32) -> Sizes {
        Sizes { batch, element_bytes: 2, counted: Counted::All, sequence: None, ranks: 1 }
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

    /// Multiply-accumulates of the convolutions and the classifier, each the first kernel of its layer.
    fn forward_macs(layers: &[Layer]) -> u64 {
        layers.iter().map(|l| kernels(&l.forward)[0].flops / 2).sum()
    }

    #[test]
    fn published_parameters() {
        assert_eq!(params(&resnet50(&sizes(1))), 25_557_032);
        assert_eq!(params(&resnet18(&sizes(1))), 11_689_512);
    }

    #[test]
    fn published_multiply_accumulates() {
        assert_eq!(forward_macs(&resnet50(&sizes(1))), 4_089_184_256);
        assert_eq!(forward_macs(&resnet18(&sizes(1))), 1_814_073_344);
        assert_eq!(forward_macs(&resnet50(&sizes(32))), 32 * 4_089_184_256);
    }

    #[test]
    fn layers_and_gradients() {
        for (layers, count) in [(resnet50(&sizes(4)), 54), (resnet18(&sizes(4)), 21)] {
            assert_eq!(layers.len(), count);
            assert!(layers.iter().all(|l| l.gradient == Bytes(2 * l.params) && l.params > 0));
            let mut names: Vec<_> = layers.iter().map(|l| &l.name).collect();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), count);
        }
        let total: u64 = resnet50(&sizes(32)).iter().map(|l| l.gradient.0).sum();
        assert_eq!(total, 51_114_064);
    }

    #[test]
    fn shapes_on_the_way() {
        let layers = plans(Block::Bottleneck, [3, 4, 6, 3], 32, 2);
        let names = ["conv1", "layer1.0.conv1", "layer1.0.conv2", "layer1.0.conv3", "layer1.0.downsample"];
        let built: Vec<Layer> = layers.iter().map(|(plan, _)| plan.clone().build(false, 2, Counted::All)).collect();
        assert_eq!(built.iter().take(5).map(|l| l.name.as_str()).collect::<Vec<_>>(), names);
        let shape = |name: &str| {
            let i = built.iter().position(|l| l.name == name).unwrap();
            let ImageShape { batch, channels, height, width } = layers[i].1;
            assert_eq!(batch, 32);
            (channels, height, width)
        };
        assert_eq!(shape("conv1"), (64, 56, 56)); // behind its pool
        assert_eq!(shape("layer1.2.conv3"), (256, 56, 56));
        assert_eq!(shape("layer2.0.conv1"), (128, 56, 56)); // v1.5: the stride is in conv2
        assert_eq!(shape("layer2.0.conv2"), (128, 28, 28));
        assert_eq!(shape("layer2.0.downsample"), (512, 28, 28));
        assert_eq!(shape("layer3.5.conv3"), (1024, 14, 14));
        assert_eq!(shape("layer4.2.conv1"), (512, 7, 7));
        assert_eq!(shape("layer4.2.conv3"), (2048, 1, 1)); // behind its pool
        assert_eq!(shape("fc"), (1000, 1, 1));
    }

    #[test]
    fn a_block_by_hand() {
        let layers = resnet50(&sizes(1));
        let x = 2 * 56 * 56 * 256; // bytes of a stage's activation
        let conv1 = layers.iter().find(|l| l.name == "layer1.1.conv1").unwrap();
        // Input gradient: the convolution's, then the addition of the shortcut's.
        let expected = [x + x / 4 + 2 * 64 * 256, 3 * x];
        assert_eq!(kernels(&conv1.input_grad).iter().map(|k| k.bytes).collect::<Vec<_>>(), expected);
        let conv3 = layers.iter().find(|l| l.name == "layer1.1.conv3").unwrap();
        // Convolution, two kernels of batch norm, addition, ReLU.
        let expected = [x / 4 + 2 * 64 * 256 + x, x, 2 * x, 3 * x, 2 * x];
        assert_eq!(kernels(&conv3.forward).iter().map(|k| k.bytes).collect::<Vec<_>>(), expected);
        // ReLU, two kernels of batch norm, convolution.
        let expected = [3 * x, 2 * x, 3 * x, x / 4 + 2 * 64 * 256 + x];
        assert_eq!(kernels(&conv3.weight_grad).iter().map(|k| k.bytes).collect::<Vec<_>>(), expected);
        // The shortcut's layer ends its block where there is one.
        let find = |name: &str| layers.iter().find(|l| l.name == name).unwrap();
        assert_eq!(kernels(&find("layer1.0.conv3").forward).len(), 3);
        assert_eq!(kernels(&find("layer1.0.downsample").forward).len(), 5);
    }

    #[test]
    fn backward_is_twice_forward() {
        for layers in [resnet50(&sizes(8)), resnet18(&sizes(8))] {
            let sum = |pass: fn(&Layer) -> &Cost| -> f64 {
                layers.iter().map(|l| pass(l).demand().unwrap().flops as f64).sum()
            };
            let forward = sum(|l| &l.forward);
            let backward = sum(|l| &l.input_grad) + sum(|l| &l.weight_grad);
            let ratio = backward / forward;
            assert!((1.9..2.0).contains(&ratio), "{ratio}"); // the first layer has no input gradient
        }
    }

    #[test]
    fn only_the_first_layer_has_no_input_gradient() {
        for layers in [resnet50(&sizes(1)), resnet18(&sizes(1))] {
            assert_eq!(layers.iter().position(|l| l.input_grad.is_nothing()), Some(0));
            assert_eq!(layers.iter().filter(|l| l.input_grad.is_nothing()).count(), 1);
        }
    }
}
