package kubernetes

import (
	"bytes"
	"fmt"
)

// Patch is a change of a module that a program is built from.
type Patch struct {
	Module string // "k8s.io/client-go"
	File   string // in the module
	Old    string // a text that the file has once
	New    string
}

// HostPatches returns the patches of all programs that run on the host and have a client of a cluster: those of the
// bundles, and of components that are not run in machines.
func HostPatches() []Patch {
	return []Patch{{
		// An administrator of a cluster can have requests answered with a redirect, by an API group or a service proxy.
		// Whoever follows it to another server connects from the network of the host, with the credentials of the client.
		// Clients that get the redirect itself return an error. API servers redirect to themselves where the schema of an
		// API group has changed (/openapi/v3).
		Module: "k8s.io/client-go", File: "rest/transport.go",
		Old: `		httpClient = http.DefaultClient
	}

	return httpClient, nil
`,
		New: `		httpClient = &http.Client{}
	}
	httpClient.CheckRedirect = func(request *http.Request, via []*http.Request) error {
		if first := via[0].URL; len(via) < 10 && request.URL.Scheme == first.Scheme && request.URL.Host == first.Host {
			return nil
		}
		return http.ErrUseLastResponse
	}

	return httpClient, nil
`,
	}}
}

// Apply returns the changed content of the file.
func (p Patch) Apply(content []byte) ([]byte, error) {
	if n := bytes.Count(content, []byte(p.Old)); n != 1 {
		return nil, fmt.Errorf("patch %s of %s: the file has the text to replace %d times, not once: "+
			"fit HostPatches (kubernetes/patch.go) to this version of the module", p.File, p.Module, n)
	}
	return bytes.Replace(content, []byte(p.Old), []byte(p.New), 1), nil
}
