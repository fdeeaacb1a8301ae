package etcd

// RepairOn is KeepWritable with a clock of the test's.
var RepairOn = (*Connection).repairOn
