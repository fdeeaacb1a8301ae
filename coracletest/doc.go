// Package coracletest runs Coracle for the tests of other programs: controllers that call AWS, operators that EKS users
// install, tools that create clusters.
//
//	func TestMine(t *testing.T) {
//		c := coracletest.Start(t)                // an AWS account of the test's own
//		cluster := c.Cluster(t, "it")            // a real control plane, in some seconds
//		eks.NewFromConfig(c.AWSConfig())         // any client of the SDK
//		kubernetes.NewForConfig(cluster.RESTConfig())
//	}
//
// All tests of a test binary share one daemon, which the first [Start] starts. Each Start makes an AWS account, so that
// tests may run in parallel and use the same names. The daemon, its clusters and its machines end with the test
// binary, however that ends; a test that fails has what the daemon logged meanwhile in its output.
//
// A test needs the coracle program: the one that the environment variable CORACLETEST_PROGRAM names, or else "coracle"
// on the PATH. With root, EC2 instances are machines; without, they are simulated. When CORACLETEST_DATA_DIR names the
// data directory of a daemon that is running, tests make their accounts there, and that daemon stays: the next run of
// the tests need not wait for one.
package coracletest
