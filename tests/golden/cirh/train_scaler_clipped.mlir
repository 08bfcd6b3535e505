module  {
  func @graph(%arg0: tensor<f32> {tf.aliasing_output = 7 : i64, tf.resource_name = "state.grad_scaler.0.loss_scale"}, %arg1: tensor<3x8xf32> {tf.aliasing_output = 3 : i64, tf.resource_name = "state.model.fc2.weight"}, %arg2: tensor<8x6xf32> {tf.aliasing_output = 1 : i64, tf.resource_name = "state.model.fc1.weight"}, %arg3: tensor<4x6xf32> {cs.input_name = "input_0"}, %arg4: tensor<8xf32> {tf.aliasing_output = 2 : i64, tf.resource_name = "state.model.fc1.bias"}, %arg5: tensor<3xf32> {tf.aliasing_output = 4 : i64, tf.resource_name = "state.model.fc2.bias"}, %arg6: tensor<4xi32> {cs.input_name = "input_1"}, %arg7: tensor<i64> {tf.aliasing_output = 0 : i64, tf.resource_name = "state.grad_scaler.0.num_skipped_steps"}, %arg8: tensor<i64> {tf.aliasing_output = 6 : i64, tf.resource_name = "state.grad_scaler.0.steps_since_rescale"}, %arg9: tensor<i64> {tf.aliasing_output = 5 : i64, tf.resource_name = "state.grad_scaler.0.overflows_since_rescale"}) -> (tensor<i64>, tensor<8x6xf32>, tensor<8xf32>, tensor<3x8xf32>, tensor<3xf32>, tensor<i64>, tensor<i64>, tensor<f32>, tensor<f32> {cs.output_name = "output_o"}) attributes {cs.fp16_type = "float16", cs.pol = 1 : i64} {
    %cst = cirh.Const dense<0xFF800000> : tensor<f32>
    %cst_0 = cirh.Const dense<-1.000000e-01> : tensor<3xf32>
    %cst_1 = cirh.Const dense<-1.000000e-01> : tensor<3x8xf32>
    %cst_2 = cirh.Const dense<-1.000000e-01> : tensor<8xf32>
    %cst_3 = cirh.Const dense<-1.000000e-01> : tensor<8x6xf32>
    %cst_4 = cirh.Const dense<1.000000e+00> : tensor<f32>
    %cst_5 = cirh.Const dense<0.000000e+00> : tensor<f32>
    %cst_6 = cirh.Const dense<0.000000e+00> : tensor<4x8xf16>
    %cst_7 = cirh.Const dense<3.276800e+04> : tensor<f32>
    %cst_8 = cirh.Const dense<6.10351563E-5> : tensor<f32>
    %cst_9 = cirh.Const dense<2000> : tensor<i64>
    %cst_10 = cirh.Const dense<9.99999997E-7> : tensor<f32>
    %cst_11 = cirh.Const dense<0x7F800000> : tensor<f32>
    %cst_12 = cirh.Const dense<1> : tensor<i64>
    %cst_13 = cirh.Const dense<4.000000e+00> : tensor<4x3xf32>
    %cst_14 = cirh.Const dense<4.000000e+00> : tensor<f32>
    %0 = cirh.Div %cst_4, %arg0 : tensor<f32>
    %1 = cirh.Cast %arg1 {Truncate = false} : tensor<3x8xf32> -> tensor<3x8xf16>
    %2 = cirh.Cast %arg2 {Truncate = false} : tensor<8x6xf32> -> tensor<8x6xf16>
    %3 = cirh.Cast %arg3 {Truncate = false} : tensor<4x6xf32> -> tensor<4x6xf16>
    %4 = cirh.Cast %arg4 {Truncate = false} : tensor<8xf32> -> tensor<8xf16>
    %5 = cirh.MatMul %3, %2 {cs.internal = {}, transpose_a = false, transpose_b = true} : (tensor<4x6xf16>, tensor<8x6xf16>) -> tensor<4x8xf16>
    %6 = cirh.BroadcastInDim %4 {broadcast_dimensions = dense<1> : tensor<1xi64>} : (tensor<8xf16>) -> tensor<4x8xf16>
    %7 = cirh.Add %6, %5 : tensor<4x8xf16>
    %8 = cirh.Relu %7 : tensor<4x8xf16>
    %9 = cirh.Cast %arg5 {Truncate = false} : tensor<3xf32> -> tensor<3xf16>
    %10 = cirh.MatMul %8, %1 {cs.internal = {}, transpose_a = false, transpose_b = true} : (tensor<4x8xf16>, tensor<3x8xf16>) -> tensor<4x3xf16>
    %11 = cirh.BroadcastInDim %9 {broadcast_dimensions = dense<1> : tensor<1xi64>} : (tensor<3xf16>) -> tensor<4x3xf16>
    %12 = cirh.Add %11, %10 : tensor<4x3xf16>
    %13 = cirh.Cast %12 {Truncate = false} : tensor<4x3xf16> -> tensor<4x3xf32>
    %14 = cirh.Cast %arg6 {Truncate = false} : tensor<4xi32> -> tensor<4xi64>
    %loss, %backprop = cirh.SparseSoftmaxCrossEntropyWithLogits %13, %14 {axis = 1 : i64} : (tensor<4x3xf32>, tensor<4xi64>) -> (tensor<4xf32>, tensor<4x3xf32>)
    %15 = cirh.Reduce %loss {dimensions = dense<0> : tensor<1xi64>, keep_dims = dense<> : tensor<0xi64>, reduce_kind = "ADD"} : (tensor<4xf32>) -> tensor<f32>
    %16 = cirh.Div %15, %cst_14 : tensor<f32>
    %17 = cirh.BroadcastInDim %arg0 {broadcast_dimensions = dense<> : tensor<0xi64>} : (tensor<f32>) -> tensor<4x3xf32>
    %18 = cirh.Mul %backprop, %17 : tensor<4x3xf32>
    %19 = cirh.Div %18, %cst_13 : tensor<4x3xf32>
    %20 = cirh.Cast %19 {Truncate = false} : tensor<4x3xf32> -> tensor<4x3xf16>
    %21 = cirh.Reduce %20 {dimensions = dense<0> : tensor<1xi64>, keep_dims = dense<> : tensor<0xi64>, reduce_kind = "ADD"} : (tensor<4x3xf16>) -> tensor<3xf16>
    %22 = cirh.BroadcastInDim %21 {broadcast_dimensions = dense<1> : tensor<1xi64>} : (tensor<3xf16>) -> tensor<1x3xf16>
    %23 = cirh.Reshape %22 : (tensor<1x3xf16>) -> tensor<3xf16>
    %24 = cirh.Cast %23 {Truncate = false} : tensor<3xf16> -> tensor<3xf32>
    %25 = cirh.BroadcastInDim %0 {broadcast_dimensions = dense<> : tensor<0xi64>} : (tensor<f32>) -> tensor<3xf32>
    %26 = cirh.Mul %24, %25 : tensor<3xf32>
    %27 = cirh.Mul %26, %26 : tensor<3xf32>
    %28 = cirh.Reduce %27 {dimensions = dense<0> : tensor<1xi64>, keep_dims = dense<> : tensor<0xi64>, reduce_kind = "ADD"} : (tensor<3xf32>) -> tensor<f32>
    %29 = cirh.MatMul %20, %8 {cs.internal = {}, transpose_a = true, transpose_b = false} : (tensor<4x3xf16>, tensor<4x8xf16>) -> tensor<3x8xf16>
    %30 = cirh.Cast %29 {Truncate = false} : tensor<3x8xf16> -> tensor<3x8xf32>
    %31 = cirh.BroadcastInDim %0 {broadcast_dimensions = dense<> : tensor<0xi64>} : (tensor<f32>) -> tensor<3x8xf32>
    %32 = cirh.Mul %30, %31 : tensor<3x8xf32>
    %33 = cirh.Mul %32, %32 : tensor<3x8xf32>
    %34 = cirh.Reduce %33 {dimensions = dense<[0, 1]> : tensor<2xi64>, keep_dims = dense<> : tensor<0xi64>, reduce_kind = "ADD"} : (tensor<3x8xf32>) -> tensor<f32>
    %35 = cirh.MatMul %20, %1 {cs.internal = {}, transpose_a = false, transpose_b = false} : (tensor<4x3xf16>, tensor<3x8xf16>) -> tensor<4x8xf16>
    %36 = cirh.Compare %8, %cst_6 {comparison_direction = "GT"} : tensor<4x8xf16> -> tensor<4x8xi1>
    %37 = cirh.Select %36, %35, %cst_6 : (tensor<4x8xi1>, tensor<4x8xf16>, tensor<4x8xf16>) -> tensor<4x8xf16>
    %38 = cirh.Reduce %37 {dimensions = dense<0> : tensor<1xi64>, keep_dims = dense<> : tensor<0xi64>, reduce_kind = "ADD"} : (tensor<4x8xf16>) -> tensor<8xf16>
    %39 = cirh.BroadcastInDim %38 {broadcast_dimensions = dense<1> : tensor<1xi64>} : (tensor<8xf16>) -> tensor<1x8xf16>
    %40 = cirh.Reshape %39 : (tensor<1x8xf16>) -> tensor<8xf16>
    %41 = cirh.Cast %40 {Truncate = false} : tensor<8xf16> -> tensor<8xf32>
    %42 = cirh.BroadcastInDim %0 {broadcast_dimensions = dense<> : tensor<0xi64>} : (tensor<f32>) -> tensor<8xf32>
    %43 = cirh.Mul %41, %42 : tensor<8xf32>
    %44 = cirh.Mul %43, %43 : tensor<8xf32>
    %45 = cirh.Reduce %44 {dimensions = dense<0> : tensor<1xi64>, keep_dims = dense<> : tensor<0xi64>, reduce_kind = "ADD"} : (tensor<8xf32>) -> tensor<f32>
    %46 = cirh.MatMul %37, %3 {cs.internal = {}, transpose_a = true, transpose_b = false} : (tensor<4x8xf16>, tensor<4x6xf16>) -> tensor<8x6xf16>
    %47 = cirh.Cast %46 {Truncate = false} : tensor<8x6xf16> -> tensor<8x6xf32>
    %48 = cirh.BroadcastInDim %0 {broadcast_dimensions = dense<> : tensor<0xi64>} : (tensor<f32>) -> tensor<8x6xf32>
    %49 = cirh.Mul %47, %48 : tensor<8x6xf32>
    %50 = cirh.Mul %49, %49 : tensor<8x6xf32>
    %51 = cirh.Reduce %50 {dimensions = dense<[0, 1]> : tensor<2xi64>, keep_dims = dense<> : tensor<0xi64>, reduce_kind = "ADD"} : (tensor<8x6xf32>) -> tensor<f32>
    %52 = cirh.BroadcastInDim %51 {broadcast_dimensions = dense<> : tensor<0xi64>} : (tensor<f32>) -> tensor<1xf32>
    %53 = cirh.BroadcastInDim %45 {broadcast_dimensions = dense<> : tensor<0xi64>} : (tensor<f32>) -> tensor<1xf32>
    %54 = cirh.BroadcastInDim %34 {broadcast_dimensions = dense<> : tensor<0xi64>} : (tensor<f32>) -> tensor<1xf32>
    %55 = cirh.BroadcastInDim %28 {broadcast_dimensions = dense<> : tensor<0xi64>} : (tensor<f32>) -> tensor<1xf32>
    %56 = cirh.Concat %52, %53, %54, %55 {axis = 0 : i64} : (tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<4xf32>
    %57 = cirh.Reduce %56 {dimensions = dense<0> : tensor<1xi64>, keep_dims = dense<> : tensor<0xi64>, reduce_kind = "ADD"} : (tensor<4xf32>) -> tensor<f32>
    %58 = cirh.Sqrt %57 : tensor<f32>
    %59 = cirh.Compare %58, %cst_11 {comparison_direction = "LT"} : tensor<f32> -> tensor<i1>
    %60 = cirh.Cast %59 {Truncate = false} : tensor<i1> -> tensor<i64>
    %61 = cirh.Sub %cst_12, %60 : tensor<i64>
    %62 = cirh.Add %arg7, %61 : tensor<i64>
    %63 = cirh.L2Norm %26 {dims = dense<0> : tensor<1xi64>, keepdim = false} : (tensor<3xf32>) -> tensor<f32>
    %64 = cirh.L2Norm %32 {dims = dense<[0, 1]> : tensor<2xi64>, keepdim = false} : (tensor<3x8xf32>) -> tensor<f32>
    %65 = cirh.L2Norm %43 {dims = dense<0> : tensor<1xi64>, keepdim = false} : (tensor<8xf32>) -> tensor<f32>
    %66 = cirh.L2Norm %49 {dims = dense<[0, 1]> : tensor<2xi64>, keepdim = false} : (tensor<8x6xf32>) -> tensor<f32>
    %67 = cirh.BroadcastInDim %66 {broadcast_dimensions = dense<> : tensor<0xi64>} : (tensor<f32>) -> tensor<1xf32>
    %68 = cirh.BroadcastInDim %65 {broadcast_dimensions = dense<> : tensor<0xi64>} : (tensor<f32>) -> tensor<1xf32>
    %69 = cirh.BroadcastInDim %64 {broadcast_dimensions = dense<> : tensor<0xi64>} : (tensor<f32>) -> tensor<1xf32>
    %70 = cirh.BroadcastInDim %63 {broadcast_dimensions = dense<> : tensor<0xi64>} : (tensor<f32>) -> tensor<1xf32>
    %71 = cirh.Concat %67, %68, %69, %70 {axis = 0 : i64} : (tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<4xf32>
    %72 = cirh.L2Norm %71 {dims = dense<0> : tensor<1xi64>, keepdim = false} : (tensor<4xf32>) -> tensor<f32>
    %73 = cirh.Add %72, %cst_10 : tensor<f32>
    %74 = cirh.Reciprocal %73 : tensor<f32>
    %75 = cirh.Clamp %74, %cst, %cst_4 : (tensor<f32>, tensor<f32>, tensor<f32>) -> tensor<f32>
    %76 = cirh.BroadcastInDim %75 {broadcast_dimensions = dense<> : tensor<0xi64>} : (tensor<f32>) -> tensor<8x6xf32>
    %77 = cirh.Mul %49, %76 : tensor<8x6xf32>
    %78 = cirh.Mul %77, %cst_3 : tensor<8x6xf32>
    %79 = cirh.Add %arg2, %78 : tensor<8x6xf32>
    %80 = cirh.BroadcastInDim %59 {broadcast_dimensions = dense<> : tensor<0xi64>} : (tensor<i1>) -> tensor<8x6xi1>
    %81 = cirh.Select %80, %79, %arg2 : (tensor<8x6xi1>, tensor<8x6xf32>, tensor<8x6xf32>) -> tensor<8x6xf32>
    %82 = cirh.BroadcastInDim %75 {broadcast_dimensions = dense<> : tensor<0xi64>} : (tensor<f32>) -> tensor<8xf32>
    %83 = cirh.Mul %43, %82 : tensor<8xf32>
    %84 = cirh.Mul %83, %cst_2 : tensor<8xf32>
    %85 = cirh.Add %arg4, %84 : tensor<8xf32>
    %86 = cirh.BroadcastInDim %59 {broadcast_dimensions = dense<> : tensor<0xi64>} : (tensor<i1>) -> tensor<8xi1>
    %87 = cirh.Select %86, %85, %arg4 : (tensor<8xi1>, tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %88 = cirh.BroadcastInDim %75 {broadcast_dimensions = dense<> : tensor<0xi64>} : (tensor<f32>) -> tensor<3x8xf32>
    %89 = cirh.Mul %32, %88 : tensor<3x8xf32>
    %90 = cirh.Mul %89, %cst_1 : tensor<3x8xf32>
    %91 = cirh.Add %arg1, %90 : tensor<3x8xf32>
    %92 = cirh.BroadcastInDim %59 {broadcast_dimensions = dense<> : tensor<0xi64>} : (tensor<i1>) -> tensor<3x8xi1>
    %93 = cirh.Select %92, %91, %arg1 : (tensor<3x8xi1>, tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
    %94 = cirh.BroadcastInDim %75 {broadcast_dimensions = dense<> : tensor<0xi64>} : (tensor<f32>) -> tensor<3xf32>
    %95 = cirh.Mul %26, %94 : tensor<3xf32>
    %96 = cirh.Mul %95, %cst_0 : tensor<3xf32>
    %97 = cirh.Add %arg5, %96 : tensor<3xf32>
    %98 = cirh.BroadcastInDim %59 {broadcast_dimensions = dense<> : tensor<0xi64>} : (tensor<i1>) -> tensor<3xi1>
    %99 = cirh.Select %98, %97, %arg5 : (tensor<3xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %100 = cirh.Add %arg8, %cst_12 : tensor<i64>
    %101 = cirh.Cast %100 {Truncate = false} : tensor<i64> -> tensor<f32>
    %102 = cirh.Add %arg9, %61 : tensor<i64>
    %103 = cirh.Cast %102 {Truncate = false} : tensor<i64> -> tensor<f32>
    %104 = cirh.Div %103, %101 : tensor<f32>
    %105 = cirh.Compare %cst_5, %104 {comparison_direction = "LT"} : tensor<f32> -> tensor<i1>
    %106 = cirh.Cast %105 {Truncate = false} : tensor<i1> -> tensor<i64>
    %107 = cirh.Sub %cst_12, %106 : tensor<i64>
    %108 = cirh.Mul %100, %107 : tensor<i64>
    %109 = cirh.Compare %cst_9, %108 {comparison_direction = "LT"} : tensor<i64> -> tensor<i1>
    %110 = cirh.Cast %109 {Truncate = false} : tensor<i1> -> tensor<i64>
    %111 = cirh.Sub %cst_12, %110 : tensor<i64>
    %112 = cirh.Mul %102, %107 : tensor<i64>
    %113 = cirh.Mul %112, %111 : tensor<i64>
    %114 = cirh.Mul %108, %111 : tensor<i64>
    %115 = cirh.Add %110, %cst_12 : tensor<i64>
    %116 = cirh.Cast %115 {Truncate = false} : tensor<i64> -> tensor<f32>
    %117 = cirh.Add %106, %cst_12 : tensor<i64>
    %118 = cirh.Cast %117 {Truncate = false} : tensor<i64> -> tensor<f32>
    %119 = cirh.Div %arg0, %118 : tensor<f32>
    %120 = cirh.Mul %119, %116 : tensor<f32>
    %121 = cirh.Clamp %120, %cst_8, %cst_7 : (tensor<f32>, tensor<f32>, tensor<f32>) -> tensor<f32>
    return %62, %81, %87, %93, %99, %113, %114, %121, %16 : tensor<i64>, tensor<8x6xf32>, tensor<8xf32>, tensor<3x8xf32>, tensor<3xf32>, tensor<i64>, tensor<i64>, tensor<f32>, tensor<f32>
  }
}

