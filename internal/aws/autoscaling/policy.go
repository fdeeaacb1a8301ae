package autoscaling

var adjustmentTypes = []string{"ChangeInCapacity", "ExactCapacity", "PercentChangeInCapacity"}
