module  {
  func @graph(%arg0: tensor<4x3xf32> {cs.input_name = "input"}) -> (tensor<f32> {cs.output_name = "output_loss"}) attributes {cs.fp16_type = "float16", cs.pol = 1 : i64} {
    %0 = cirh.Reduce %arg0 {dimensions = dense<[0, 1]> : tensor<2xi64>, keep_dims = dense<> : tensor<0xi64>, reduce_kind = "ADD"} : (tensor<4x3xf32>) -> tensor<f32>
    return %0 : tensor<f32>
  }
}
