module  {
  func @graph(%arg0: tensor<3xf32> {tf.aliasing_output = 0 : i64, tf.resource_name = "state.model.weight"}, %arg1: tensor<3xf32> {tf.aliasing_output = 1 : i64, tf.resource_name = "state.model.bias"}, %arg2: tensor<3xf32> {tf.aliasing_output = 2 : i64, tf.resource_name = "state.model.running_mean"}, %arg3: tensor<3xf32> {tf.aliasing_output = 3 : i64, tf.resource_name = "state.model.running_var"}, %arg4: tensor<i64> {tf.aliasing_output = 4 : i64, tf.resource_name = "state.model.num_batches_tracked"}, %arg5: tensor<2x3x4x4xf32> {cs.input_name = "input_0"}) -> (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<i64>, tensor<2x3x4x4xf16> {cs.output_name = "output_o"}) attributes {cs.fp16_type = "float16", cs.pol = 1 : i64} {
    %cst = cirh.Const dense<1> : tensor<i64>
    %0 = cirh.Add %arg4, %cst : tensor<i64>
    %1 = cirh.Cast %arg3 {Truncate = false} : tensor<3xf32> -> tensor<3xf16>
    %2 = cirh.Cast %arg2 {Truncate = false} : tensor<3xf32> -> tensor<3xf16>
    %3 = cirh.Cast %arg1 {Truncate = false} : tensor<3xf32> -> tensor<3xf16>
    %4 = cirh.Cast %arg0 {Truncate = false} : tensor<3xf32> -> tensor<3xf16>
    %5 = cirh.Cast %arg5 {Truncate = false} : tensor<2x3x4x4xf32> -> tensor<2x3x4x4xf16>
    %y, %batch_mean, %batch_variance = cirh.FusedBatchNorm %5, %4, %3, %2, %1 {data_format = "NCHW", epsilon = 9.99999974E-6 : f32, exponential_avg_factor = 1.000000e-01 : f32, is_training = true} : (tensor<2x3x4x4xf16>, tensor<3xf16>, tensor<3xf16>, tensor<3xf16>, tensor<3xf16>) -> (tensor<2x3x4x4xf16>, tensor<3xf16>, tensor<3xf16>)
    return %arg0, %arg1, %arg2, %arg3, %0, %y : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<i64>, tensor<2x3x4x4xf16>
  }
}
