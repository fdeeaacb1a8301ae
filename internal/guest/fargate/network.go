package fargate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
)

// pluginName is the name of the CNI plugin, of its network, and of the program.
const pluginName = "fargate"

// cniVersion is the version of the CNI specification; supportedVersions are those with the same results.
// https://www.cni.dev/docs/spec/
const cniVersion = "1.0.0"

var supportedVersions = []string{"0.3.0", "0.3.1", "0.4.0", cniVersion}

// machineNamespace is the network namespace of the machine: of its init.
const machineNamespace = "/proc/1/ns/net"

// maxPluginConfig bounds the configuration that the plugin reads, in bytes.
const maxPluginConfig = 1 << 20

// pluginConfig is the plugin's configuration.
type pluginConfig struct {
	CNIVersion string `json:"cniVersion,omitempty"` // given by the runtime
	Type       string `json:"type"`
	Address    string `json:"address"` // of the machine, which is to be the pod's
}

// plugin is one call of the CNI plugin. ADD gives the pod the network namespace of the machine: it is mounted where
// containerd has made one for the pod. DEL leaves all to containerd, which unmounts it there: the machine's network
// stays as it is.
type plugin struct {
	env       func(string) string
	namespace string // the file of the one to give
}

// pluginError is the error of a call, with its code in the CNI specification.
type pluginError struct {
	CNIVersion string `json:"cniVersion"`
	Code       int    `json:"code"`
	Message    string `json:"msg"`
}

// Codes of errors in the CNI specification.
const (
	codeIncompatible = 1
	codeEnvironment  = 4
	codeDecoding     = 6
	codeConfig       = 7
	codeFailed       = 100 // from here on they are the plugin's own
)

type (
	result struct {
		CNIVersion string            `json:"cniVersion"`
		Interfaces []resultInterface `json:"interfaces"`
		IPs        []resultIP        `json:"ips"`
		DNS        struct{}          `json:"dns"`
	}
	resultInterface struct {
		Name    string `json:"name"`
		MAC     string `json:"mac"`
		Sandbox string `json:"sandbox"`
	}
	resultIP struct {
		Version   string `json:"version,omitempty"` // before 1.0.0
		Interface int    `json:"interface"`
		Address   string `json:"address"`
	}
)

func (p plugin) run(stdin io.Reader, stdout io.Writer) int {
	answer, failure := p.call(stdin)
	if failure != nil {
		answer = failure
	}
	if answer != nil {
		if err := json.NewEncoder(stdout).Encode(answer); err != nil {
			return 1
		}
	}
	if failure != nil {
		return 1
	}
	return 0
}

func (p plugin) call(stdin io.Reader) (answer any, failure *pluginError) {
	fail := func(code int, format string, args ...any) (any, *pluginError) {
		return nil, &pluginError{cniVersion, code, fmt.Sprintf(format, args...)}
	}
	command := p.env("CNI_COMMAND")
	if command == "VERSION" {
		return struct {
			CNIVersion        string   `json:"cniVersion"`
			SupportedVersions []string `json:"supportedVersions"`
		}{cniVersion, supportedVersions}, nil
	}
	data, err := io.ReadAll(io.LimitReader(stdin, maxPluginConfig))
	if err != nil {
		return fail(codeDecoding, "read the configuration: %v", err)
	}
	var c pluginConfig
	if err := json.Unmarshal(data, &c); err != nil {
		return fail(codeDecoding, "read the configuration: %v", err)
	}
	if !slices.Contains(supportedVersions, c.CNIVersion) {
		return fail(codeIncompatible, "CNI version %q is not supported: %q are", c.CNIVersion, supportedVersions)
	}
	switch command {
	case "DEL", "STATUS", "GC":
		return nil, nil
	case "ADD", "CHECK":
	default:
		return fail(codeEnvironment, "CNI_COMMAND is %q", command)
	}
	path := p.env("CNI_NETNS")
	if path == "" {
		return fail(codeEnvironment, "CNI_NETNS is required for %s", command)
	}
	if command == "CHECK" {
		same, err := isSameFile(p.namespace, path)
		if err != nil {
			return fail(codeFailed, "compare %s with the network namespace of the machine: %v", path, err)
		}
		if !same {
			return fail(codeFailed, "%s is not the network namespace of the machine", path)
		}
		return nil, nil
	}
	link, address, err := findAddress(c.Address)
	if err != nil {
		return fail(codeConfig, "%v", err)
	}
	if err := replaceNamespace(p.namespace, path); err != nil {
		return fail(codeFailed, "give the pod the network of the machine: %v", err)
	}
	ip := resultIP{Address: address.String()}
	if c.CNIVersion != cniVersion {
		ip.Version = map[bool]string{true: "4", false: "6"}[address.Addr().Is4()]
	}
	return result{CNIVersion: c.CNIVersion, IPs: []resultIP{ip}, Interfaces: []resultInterface{
		{Name: p.env("CNI_IFNAME"), MAC: link.HardwareAddr.String(), Sandbox: path}}}, nil
}

// findAddress returns the link that has an address, and the address with the length of its network's prefix.
func findAddress(text string) (net.Interface, netip.Prefix, error) {
	wanted, err := netip.ParseAddr(text)
	if err != nil {
		return net.Interface{}, netip.Prefix{}, err
	}
	links, err := net.Interfaces()
	if err != nil {
		return net.Interface{}, netip.Prefix{}, err
	}
	for _, link := range links {
		addresses, err := link.Addrs()
		if err != nil {
			return net.Interface{}, netip.Prefix{}, err
		}
		for _, a := range addresses {
			if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Unmap() == wanted {
				return link, p, nil
			}
		}
	}
	return net.Interface{}, netip.Prefix{}, errors.New("no network interface of the machine has the address " + text)
}
