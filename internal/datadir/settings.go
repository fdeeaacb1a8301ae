package datadir

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"

	"github.com/coracle-eks/coracle/internal/durable"
)

// Settings are the settings of a data directory. They apply until a flag of "coracle serve" or "coracle up" changes
// them.
type Settings struct {
	// Listen is the address of the AWS endpoint.
	Listen string `json:"listen"`
	// AdvertiseAddress is the address at which clients that reach nothing else of this host reach Listen, or "auto" for
	// whichever address they use; empty when there are none.
	AdvertiseAddress string `json:"advertiseAddress,omitempty"`
	// Region is the region of requests without a credential scope, and of "coracle env".
	Region string `json:"region"`
	// Account is the account that the first start made.
	Account string `json:"account"`
	// Machines is the kind of machines that EC2 instances run on: "namespace" or "simulated".
	Machines string `json:"machines"`
	// Simulated is the reason that instances are simulated although Machines is "namespace": what the last start found
	// lacking on this host. Empty when they are what Machines says.
	Simulated string `json:"simulated,omitempty"`
	// UserNamespaces is whether machines of namespaces get user namespaces of their own: "auto", where the host allows
	// it, or "off".
	UserNamespaces string `json:"userNamespaces,omitempty"`
	// WebhookPort is the port on 127.0.0.1 at which API servers reach the daemon. They are started with it.
	WebhookPort int `json:"webhookPort"`
	// PublicRange is the range of the public addresses of this daemon, "198.18.8.0/21"; empty without a network.
	PublicRange string `json:"publicRange,omitempty"`
	// EgressCIDRs are the blocks beside the public internet that the daemon connects to for users,
	// "10.0.0.0/8,127.0.0.1/32".
	EgressCIDRs string `json:"egressCidrs,omitempty"`
	// Forward are the services whose requests are forwarded, each with the URL of its endpoint:
	// "s3=http://127.0.0.1:9000,dynamodb=http://127.0.0.1:8000".
	Forward string `json:"forward,omitempty"`
}

// ReadSettings returns the stored settings, or fs.ErrNotExist when no daemon has started here yet.
func (d Dir) ReadSettings() (Settings, error) {
	var s Settings
	data, err := os.ReadFile(d.SettingsFile())
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("%s: %w", d.SettingsFile(), err)
	}
	return s, nil
}

// WriteSettings records what was chosen.
func (d Dir) WriteSettings(s Settings) error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return d.Write(d.SettingsFile(), append(data, '\n'), 0o600)
}

// Write replaces a file at once, unless it has that content: a reader or a crash never sees half of it.
func (d Dir) Write(name string, data []byte, mode fs.FileMode) error {
	if err := durable.EnsureFile(name, data, mode); err != nil {
		return d.explain(err)
	}
	return nil
}
