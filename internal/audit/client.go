package audit

import "strings"

// Client is the program that made a request.
type Client struct {
	// Name is the user agent in short: "kubectl v1.35.4", "kube-controller-manager/deployment-controller".
	Name string `json:"name"`
	// UserAgent is the user agent that the program sent.
	UserAgent string `json:"userAgent"`
	// IPs are the addresses that the request came from, the client's first.
	IPs []string `json:"sourceIPs,omitempty"`
}

// condense shortens a user agent to what a person calls the program. The user agents of client-go are
// program/version (os/arch) kubernetes/commit/controller.
func condense(agent string) string {
	if agent == "" {
		return "a client without a user agent"
	}
	if _, terraform, ok := strings.Cut(agent, "Terraform/"); ok {
		version, _, _ := strings.Cut(terraform, " ")
		return "Terraform " + version
	}
	first, rest, _ := strings.Cut(agent, " ")
	product, version, _ := strings.Cut(first, "/")
	switch product {
	case "Mozilla":
		return "a browser"
	case "OpenAPI-Generator": // OpenAPI-Generator/31.0.0/python
		version, language, _ := strings.Cut(version, "/")
		return "kubernetes-client " + language + " " + version
	}
	if _, commit, ok := strings.Cut(rest, "kubernetes/"); ok {
		if _, controller, ok := strings.Cut(commit, "/"); ok && controller != "" {
			// The account of a controller is its name in kube-controller-manager.
			controller = controller[strings.LastIndexByte(controller, ':')+1:]
			if controller != product {
				return product + "/" + controller
			}
		}
	}
	if version == "" || version == "v0.0.0" || strings.Contains(version, "$Format") || version == "unknown" {
		return product
	}
	return product + " " + version
}

// defaultManager returns the field manager of a request that named none: upstream takes the program's name.
func defaultManager(agent string) string {
	name, _, _ := strings.Cut(agent, "/")
	return name
}
