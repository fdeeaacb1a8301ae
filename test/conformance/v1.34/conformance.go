// Package conformance pins what the conformance tests of Kubernetes 1.34 are built from: e2e.test is the test of the
// package that it imports.
package conformance

import _ "k8s.io/kubernetes/test/e2e"
