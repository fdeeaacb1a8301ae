package nodeadm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coracle-eks/coracle/internal/guest/imds"
	"github.com/coracle-eks/coracle/internal/guest/node"
	"github.com/coracle-eks/coracle/internal/guest/systemctl"
)

// Command is one call of nodeadm.
type Command struct {
	IMDS           *imds.Client
	Root           string // of the file system; empty means /. Tests have another.
	Stdout, Stderr io.Writer
	Containerd     string                     // the program, for migrating configurations
	Systemctl      func(args ...string) error // nil: the machine's init
	AWS            func(region string) API    // nil: the instance's
	CPUs           int                        // 0: those that the machine shows
}

// API is the part of the AWS APIs that nodeadm calls.
type API interface {
	PrivateDNSName(ctx context.Context, instanceID string) (string, error)
}

// Main runs the program "nodeadm".
func Main(args []string, stdout, stderr io.Writer) int {
	c := &Command{IMDS: &imds.Client{}, Stdout: stdout, Stderr: stderr, Containerd: "/usr/bin/containerd"}
	return c.Run(context.Background(), args)
}

// run is a Command under way.
type run struct {
	*Command
	sources, skip, daemons []string
	cache, output          string
}

func (c *Command) log(level, message string, fields ...string) {
	text := level + " " + message
	if len(fields) > 0 {
		m := map[string]string{}
		for i := 0; i+1 < len(fields); i += 2 {
			m[fields[i]] = fields[i+1]
		}
		data, _ := json.Marshal(m)
		text += " " + string(data)
	}
	fmt.Fprintln(c.Stderr, text)
}

func (c *Command) rootPath(name string) string { return filepath.Join("/", c.Root, name) }

func (c *Command) writeFile(name, content string) error {
	return node.WriteFile(c.Root, name, content, 0o644)
}

func (c *Command) cpuCount() int {
	if c.CPUs > 0 {
		return c.CPUs
	}
	return node.CPUs()
}

const usage = `nodeadm - From zero to Node faster than you can say Elastic Kubernetes Service

  Usage:
    nodeadm init           Initialize this instance as a node in an EKS cluster
    nodeadm config check   Verify configuration
    nodeadm config dump    Dump configuration

  Flags:
    -c --config-source     Source(s) of node configuration: imds://user-data, file:///path (default: imds://user-data)
       --config-cache      File path at which to cache the resolved/enriched config
    -s --skip              Phases of the bootstrap to skip: config, run
    -d --daemon            Only containerd or kubelet
    -o --config-output     File path to write the final resolved config to
`

// Run runs the command of the arguments, and returns the exit status.
func (c *Command) Run(ctx context.Context, args []string) int {
	r := &run{Command: c}
	var words []string
	for i := 0; i < len(args); i++ {
		name, value, hasValue := strings.Cut(args[i], "=")
		lists := map[string]*[]string{"-c": &r.sources, "--config-source": &r.sources, "-s": &r.skip, "--skip": &r.skip,
			"-d": &r.daemons, "--daemon": &r.daemons}
		single := map[string]*string{"--config-cache": &r.cache, "-o": &r.output, "--config-output": &r.output}
		switch {
		case name == "-h" || name == "--help":
			fmt.Fprint(c.Stdout, usage)
			return 0
		case name == "--development":
			continue
		case !strings.HasPrefix(name, "-"):
			words = append(words, args[i])
			continue
		case lists[name] == nil && single[name] == nil:
			fmt.Fprintf(c.Stderr, "%s\nUnknown arguments supplied: %s\n", usage, args[i])
			return 2
		}
		if !hasValue {
			if i++; i >= len(args) {
				fmt.Fprintf(c.Stderr, "%s\nExpected a following arg for flag %s, but it did not exist.\n", usage, name)
				return 2
			}
			value = args[i]
		}
		if l := lists[name]; l != nil {
			*l = append(*l, strings.Split(value, ",")...)
		} else {
			*single[name] = value
		}
	}
	if len(r.sources) == 0 {
		r.sources = []string{"imds://user-data"}
	}
	var err error
	switch strings.Join(words, " ") {
	case "init":
		err = r.init(ctx)
	case "config check":
		r.log("info", "Checking configuration", "source", strings.Join(r.sources, " "))
		var config *NodeConfig
		if config, err = r.provide(ctx); err == nil {
			err = config.validate()
		}
		if err == nil {
			r.log("info", "Configuration is valid")
		}
	case "config dump":
		err = r.dumpConfig(ctx)
	default:
		fmt.Fprint(c.Stderr, usage)
		return 2
	}
	if err != nil {
		r.log("fatal", "Command failed", "error", err.Error())
		return 1
	}
	return 0
}

func (r *run) dumpConfig(ctx context.Context) error {
	config, _, err := r.resolve(ctx)
	if err != nil {
		return err
	}
	out := *config
	out.Status = nil
	data, err := json.Marshal(out)
	if err != nil {
		return err
	}
	if r.output != "" {
		return r.writeFile(r.output, string(data)+"\n")
	}
	_, err = fmt.Fprintf(r.Stdout, "%s\n", data)
	return err
}

// init makes the instance a node: it configures, and then runs, the daemons.
func (r *run) init(ctx context.Context) error {
	start := time.Now()
	r.log("info", "Checking user is root..")
	if os.Geteuid() != 0 && r.Root == "" {
		return errors.New("must run as root")
	}
	r.log("info", "Loading configuration..", "configSource", strings.Join(r.sources, " "), "configCache", r.cache)
	config, changed, err := r.resolve(ctx)
	if err != nil {
		return err
	}
	if config.Status == nil {
		for k, v := range config.Spec.Instance.Environment["default"] {
			if r.Root == "" {
				_ = os.Setenv(k, v)
			}
		}
		// What is missing is said before anybody is asked who this instance is.
		if err := config.validate(); err != nil {
			return err
		}
		r.log("info", "Enriching configuration..")
		if err := r.completeConfig(ctx, config); err != nil {
			return err
		}
	}
	r.log("info", "Validating configuration..")
	if err := config.validate(); err != nil {
		return err
	}
	if changed || !slices.Contains(r.skip, "config") {
		if err := r.configure(ctx, config); err != nil {
			return err
		}
	}
	if !slices.Contains(r.skip, "run") {
		if err := r.startDaemons(config); err != nil {
			return err
		}
	}
	r.log("info", "done!", "duration", time.Since(start).Round(time.Millisecond).String())
	return nil
}

// resolve returns the configuration of the sources, or the cached one when that is the same or the sources have none;
// changed reports that there was a cached one that differs.
func (r *run) resolve(ctx context.Context) (config *NodeConfig, changed bool, err error) {
	var cached *NodeConfig
	if r.cache != "" {
		data, err := os.ReadFile(r.rootPath(r.cache))
		if err == nil {
			cached = &NodeConfig{}
			if err = json.Unmarshal(data, cached); err != nil || cached.Status == nil {
				cached = nil
			}
		}
		if err != nil && !os.IsNotExist(err) {
			r.log("warn", "failed to load cached config", "error", err.Error())
		}
	}
	config, err = r.provide(ctx)
	switch {
	case errors.Is(err, errNoConfigInChain) && cached != nil:
		r.log("warn", "Falling back to cached config...")
		return cached, false, nil
	case err != nil:
		return nil, false, err
	case cached != nil && equalSpecs(config.Spec, cached.Spec):
		return cached, false, nil
	}
	return config, cached != nil, nil
}

// provide reads the sources in order and merges what they have.
func (r *run) provide(ctx context.Context) (*NodeConfig, error) {
	var configs []*NodeConfig
	for i, source := range r.sources {
		u, err := url.Parse(source)
		if err != nil {
			return nil, fmt.Errorf("failed to build provider from config source %q: %w", source, err)
		}
		var config *NodeConfig
		var tolerated []error
		switch u.Scheme {
		case "imds":
			tolerated = []error{errNoConfigInUserData, errDecoding}
			var data []byte
			if err = r.IMDS.Wait(ctx); err == nil {
				data, err = r.IMDS.Get(ctx, "latest/user-data")
			}
			if errors.Is(err, imds.ErrNotFound) {
				err = errNoConfigInUserData
			}
			if err == nil {
				config, err = parseConfig(data)
			}
		case "file":
			tolerated = []error{errNoConfigInDirectory}
			config, err = r.fromFile(u.Host + u.Path)
		default:
			return nil, fmt.Errorf("failed to build provider from config source %q: unsupported scheme: %s", source,
				u.Scheme)
		}
		if err == nil {
			configs = append(configs, config)
			continue
		}
		r.log("warn", "Encountered error in config provider", "error", err.Error())
		if !slices.ContainsFunc(tolerated, func(t error) bool { return errors.Is(err, t) }) {
			return nil, fmt.Errorf("config provider at index %d failed: %w", i, err)
		}
	}
	if len(configs) == 0 {
		return nil, errNoConfigInChain
	}
	return mergeConfigs(configs)
}

// fromFile reads a file, or all configuration files of a directory by their names.
func (r *run) fromFile(name string) (*NodeConfig, error) {
	path := name
	if filepath.IsAbs(name) {
		path = r.rootPath(name)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		return parseConfig(data)
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var configs []*NodeConfig
	for _, e := range entries {
		if ext := strings.ToLower(filepath.Ext(e.Name())); e.IsDir() || (ext != ".yaml" && ext != ".yml" &&
			ext != ".json") {
			continue
		}
		data, err := os.ReadFile(filepath.Join(path, e.Name()))
		if err != nil {
			return nil, err
		}
		config, err := parseConfig(data)
		if err != nil {
			return nil, fmt.Errorf("failed to parse config file %s: %w", e.Name(), err)
		}
		configs = append(configs, config)
	}
	if len(configs) == 0 {
		return nil, errNoConfigInDirectory
	}
	return mergeConfigs(configs)
}

// completeConfig finds out what the configuration leaves to the instance.
func (r *run) completeConfig(ctx context.Context, c *NodeConfig) error {
	image, err := node.ReadImage(r.Root)
	if err != nil {
		return err
	}
	status := &Status{KubeletVersion: node.KubeletVersion(image), Defaults: Defaults{SandboxImage: image.SandboxImage}}
	r.log("info", "Fetched kubelet version", "version", status.KubeletVersion)
	r.log("info", "Fetching instance details..")
	if status.Instance, err = node.Describe(ctx, r.IMDS); err != nil {
		return err
	}
	if !c.Spec.FeatureGates[instanceIDNodeName] {
		api := API(node.AWS{Region: status.Instance.Region, IMDS: r.IMDS,
			Warn: func(format string, args ...any) { r.log("warn", fmt.Sprintf(format, args...)) }})
		if r.AWS != nil {
			api = r.AWS(status.Instance.Region)
		}
		if status.Instance.PrivateDNSName, err = api.PrivateDNSName(ctx, status.Instance.ID); err != nil {
			return err
		}
	}
	details, _ := json.Marshal(status.Instance)
	r.log("info", "Instance details populated", "details", string(details))
	c.Status = status
	return nil
}

func (r *run) isRequested(daemon string) bool {
	return len(r.daemons) == 0 || slices.Contains(r.daemons, daemon)
}

// configure runs the phase "config".
func (r *run) configure(ctx context.Context, c *NodeConfig) error {
	r.log("info", "Setting up system config aspects...")
	if err := r.environment(c.Spec.Instance.Environment); err != nil {
		return err
	}
	if err := r.resolver(c.Spec.Instance.Network); err != nil {
		return err
	}
	r.log("info", "Configuring daemons...")
	if r.isRequested("containerd") {
		if err := r.containerd(c); err != nil {
			return err
		}
	}
	if r.isRequested("kubelet") {
		if err := r.kubelet(ctx, c); err != nil {
			return err
		}
	}
	if r.cache == "" {
		return nil
	}
	data, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return r.writeFile(r.cache, string(data)+"\n")
}

// environment makes variables of all services, or of one, drop-ins of the init.
func (r *run) environment(services map[string]map[string]string) error {
	written := false
	for _, service := range slices.Sorted(maps.Keys(services)) {
		variables := services[service]
		if len(variables) == 0 {
			continue
		}
		name, section, setting := "/etc/systemd/system.conf.d/environment.conf", "Manager", "DefaultEnvironment"
		if service != "default" {
			name, section, setting = "/etc/systemd/system/"+service+".service.d/environment.conf", "Service",
				"Environment"
		}
		var b strings.Builder
		fmt.Fprintf(&b, "[%s]\n", section)
		for _, k := range slices.Sorted(maps.Keys(variables)) {
			quoted := strings.ReplaceAll(strconv.Quote(variables[k]), "%", "%%")
			fmt.Fprintf(&b, "%s=\"%s=%s\"\n", setting, k, quoted[1:len(quoted)-1])
		}
		if err := r.writeFile(name, b.String()); err != nil {
			return err
		}
		written = true
	}
	if !written {
		return nil
	}
	return r.systemctl("daemon-reload")
}

// resolver puts the user's name servers and domains before those of DHCP.
func (r *run) resolver(n Network) error {
	if len(n.Nameservers) == 0 && len(n.Domains) == 0 {
		return nil
	}
	const file = "/etc/resolv.conf"
	data, err := os.ReadFile(r.rootPath(file))
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	var b strings.Builder
	b.WriteString("; written by nodeadm\n")
	if len(n.Domains) > 0 {
		fmt.Fprintf(&b, "search %s\n", strings.Join(n.Domains, " "))
	}
	for _, s := range n.Nameservers {
		fmt.Fprintf(&b, "nameserver %s\n", s)
	}
	for _, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		word, rest, _ := strings.Cut(line, " ")
		if (word == "search" && len(n.Domains) > 0) || strings.HasPrefix(word, ";") ||
			(word == "nameserver" && slices.Contains(n.Nameservers, rest)) || line == "" {
			continue
		}
		b.WriteString(line + "\n")
	}
	return r.writeFile(file, b.String())
}

// startDaemons runs the phase "run".
func (r *run) startDaemons(c *NodeConfig) error {
	r.log("info", "Setting up system run aspects...")
	if _, err := os.Stat(r.rootPath("/run/cloud-init/result.json")); err != nil {
		r.log("warn",
			"cloud-init result file /run/cloud-init/result.json does not exist. Do not manually call nodeadm from "+
				"user data")
	}
	if err := r.writeFile("/run/nodeadm/init", ""); err != nil {
		return err
	}
	if s := c.Spec.Instance.LocalStorage.Strategy; s != "" {
		if !slices.Contains([]string{"RAID0", "RAID10", "Mount"}, s) {
			return fmt.Errorf("invalid local storage strategy %q: it is one of RAID0, RAID10, Mount", s)
		}
		r.log("warn", "instance.localStorage is ignored: this machine has no instance store volumes", "strategy", s)
	}
	r.log("info", "Running daemons...")
	for _, daemon := range []string{"containerd", "kubelet"} {
		if !r.isRequested(daemon) {
			continue
		}
		r.log("info", "Ensuring daemon is running..", "name", daemon)
		if err := r.systemctl("restart", daemon); err != nil {
			return err
		}
		r.log("info", "Daemon is running", "name", daemon)
	}
	return nil
}

func (r *run) systemctl(args ...string) error {
	if r.Systemctl != nil {
		return r.Systemctl(args...)
	}
	c := systemctl.Command{Stdout: r.Stdout, Stderr: r.Stderr}
	if args[0] == "start" || args[0] == "restart" {
		return c.Up(args[0], args[len(args)-1], patience)
	}
	if code := c.Systemctl(args); code != 0 {
		return fmt.Errorf("systemctl %s: exit status %d", strings.Join(args, " "), code)
	}
	return nil
}

// patience is the time that a daemon may take to start, with its own attempts.
const patience = 2 * time.Minute
