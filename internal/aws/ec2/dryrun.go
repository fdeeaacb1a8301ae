package ec2

// HonoursDryRun tells wire that the methods look at DryRun themselves, after their own checks: a dry run on a VPC that does not exist
// says so, as on AWS.
func (*Service) HonoursDryRun() {}
