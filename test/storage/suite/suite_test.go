// Package suite is Kubernetes' tests of external storage drivers, k8s.io/kubernetes/test/e2e/storage/external, as a
// program of its own. The package above it builds and runs it.
//
// It is a module of its own, because Kubernetes pins other versions of what Coracle imports.
package suite

import (
	"flag"
	"os"
	"testing"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	"k8s.io/kubernetes/test/e2e/framework"
	"k8s.io/kubernetes/test/e2e/framework/config"
	"k8s.io/kubernetes/test/e2e/framework/testfiles"
	_ "k8s.io/kubernetes/test/e2e/storage/external" // the flag -storage.testdriver

	_ "k8s.io/kubernetes/test/e2e/framework/debug/init"   // what happened in the namespace of a test that fails
	_ "k8s.io/kubernetes/test/e2e/framework/metrics/init" // metrics, which the framework expects
	_ "k8s.io/kubernetes/test/e2e/framework/node/init"    // nodes that are ready after a test
)

func TestMain(m *testing.M) {
	config.CopyFlags(config.Flags, flag.CommandLine)
	framework.RegisterCommonFlags(flag.CommandLine)
	framework.RegisterClusterFlags(flag.CommandLine)
	flag.Parse() // defines the tests of each driver
	testfiles.AddFileSource(testfiles.RootFileSource{Root: "/"})
	framework.AfterReadingAllFlags(&framework.TestContext)
	os.Exit(m.Run())
}

// TestDrivers runs the tests of all drivers that the flags name.
func TestDrivers(t *testing.T) {
	gomega.RegisterFailHandler(framework.Fail)
	suite, reporter := framework.CreateGinkgoConfig()
	ginkgo.RunSpecs(t, "Kubernetes external storage", suite, reporter)
}
