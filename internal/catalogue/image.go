package catalogue

// Image is one that pods of a version run.
type Image struct {
	// Reference is its name in EKS's registry of the region: "602401143452.dkr.ecr.eu-west-1.amazonaws.com/eks/coredns:v1.14.7-eksbuild.1".
	Reference string
	// Public is where upstream publishes it; empty when it does not.
	Public string
	// Build is what it is made of; nil when it cannot be built here.
	Build *Build
}

// Build is a component that is built from its Go module, at one version.
type Build struct {
	Component string // "metrics-server"
	Module    string // "sigs.k8s.io/metrics-server"
	Version   string // "v0.9.0"
	Sum       string // "h1:...", of the module; its own go.sum says the rest
}
