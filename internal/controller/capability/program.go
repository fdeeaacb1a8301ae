package capability

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/coracle-eks/coracle/internal/catalog"
	"github.com/coracle-eks/coracle/internal/durable"
	"github.com/coracle-eks/coracle/internal/process"
	"github.com/coracle-eks/coracle/internal/upstream"
)

// kro is the build of kro's controller, and the CustomResourceDefinitions that it needs.
var kro = catalog.Build{
	Component: "kro",
	Module:    kroModule,
	Version:   kroVersion,
	Sum:       kroSum,
	OnHost:    true,
	Programs:  map[string]string{"kro": "./cmd/controller"},
	Stamps:    map[string]string{"sigs.k8s.io/release-utils/version.gitVersion": kroVersion}, // of its user agent
	Data: map[string]catalog.Data{
		definitionsFile: {Module: kroModule, Version: kroVersion, Sum: kroSum, Path: "helm/crds"},
	},
}

const (
	kroModule  = "github.com/kubernetes-sigs/kro"
	kroVersion = "v0.9.4"
	kroSum     = "h1:gynhldCLYW5x+M0c2Bf1ihoQTpNE68SKiXl1f6aX1kk="

	definitionsFile = "crds.yaml"
)

const (
	// processPrefix begins the names of the processes of capabilities; the ID of the capability follows.
	processPrefix = "capability/"
	// probePort is the port of the health of a program, on the loopback address of its cluster.
	probePort = 8079
	// probeFlag is the flag of the address of its health.
	probeFlag = "--health-probe-bind-address="
	// tooOften is the number of consecutive deaths after which a program counts as broken.
	tooOften = 4
	// memory bounds the memory of a program, in bytes: that of the limit in kro's chart.
	memory = 1 << 30
)

func (p *pass) processName() string { return processPrefix + p.row.ID }

// run builds the program, installs its definitions in the cluster, and starts it. The error is errStarting until it is
// ready.
func (p *pass) run(ctx context.Context) error {
	program, err := p.ensureProgram(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, passTimeout)
	defer cancel()
	if p.state.BuiltAt.IsZero() {
		p.state.BuiltAt = p.c.o.Now().UTC().Truncate(time.Millisecond)
	}
	role := p.row.Now(p.last).RoleARN
	token, err := p.ensureToken(ctx, role)
	if err != nil {
		return err
	}
	config, err := p.c.o.Config(ctx, p.cluster, session)
	if err != nil {
		return err
	}
	// It logs in with the token of its role, and with no certificate.
	config.CertData, config.KeyData, config.BearerToken = nil, nil, token
	if err := p.ensureDefinitions(ctx, config); err != nil {
		return err
	}
	spec, err := p.spec(program, config, role)
	if err != nil {
		return err
	}
	status, err := p.c.o.Host.Ensure(ctx, spec)
	if err != nil {
		return err
	}
	if status.Deaths >= tooOften {
		return &problem{issueOf(internalFailure, fmt.Sprintf("%s has died %d times in a row (%s). Its log is %s.",
			p.row.Type, status.Deaths, status.LastExit, spec.Log)), false}
	}
	return checkReady(ctx, spec.Args[0][len(probeFlag):])
}

// ensureProgram builds the program if it is missing, which takes some minutes, and returns its file.
func (p *pass) ensureProgram(ctx context.Context) (string, error) {
	err := p.c.o.Programs.Ensure(ctx, kro, upstream.Milestones(func(progress upstream.Progress) {
		p.c.log.Info("building the program of a capability", "cluster", p.row.Cluster, "capability", p.row.Name,
			"progress", progress)
	}))
	if err != nil && ctx.Err() == nil {
		return "", &problem{issueOf(internalFailure, "The program of kro "+kro.Version+" cannot be had: "+oneLine(err)),
			true}
	}
	if err != nil {
		return "", err
	}
	return p.c.o.Programs.Path(kro, "kro")
}

// address returns the address at which the program reports its health, and the port of the API server: the address is
// one of the cluster's own, since that port is unique on this host.
func address(config *rest.Config) (probe string, port int, err error) {
	u, err := url.Parse(config.Host)
	if err != nil {
		return "", 0, err
	}
	if port, err = strconv.Atoi(u.Port()); err != nil {
		return "", 0, fmt.Errorf("the port of the API server: %w", err)
	}
	ip := net.IPv4(127, byte(port>>8), byte(port), 1)
	return net.JoinHostPort(ip.String(), strconv.Itoa(probePort)), port, nil
}

// spec writes the kubeconfig of the program and returns the specification of its process. The same capability has the
// same one in this daemon and in the next.
func (p *pass) spec(program string, config *rest.Config, roleARN string) (process.Spec, error) {
	kubeconfig, err := yaml.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": session,
		"clusters": []any{map[string]any{"name": p.row.Cluster, "cluster": map[string]any{
			"server":                     config.Host,
			"certificate-authority-data": base64.StdEncoding.EncodeToString(config.CAData),
		}}},
		"users": []any{map[string]any{"name": session, "user": map[string]any{"tokenFile": p.path("token")}}},
		"contexts": []any{map[string]any{"name": session, "context": map[string]any{
			"cluster": p.row.Cluster, "user": session,
		}}},
	})
	if err != nil {
		return process.Spec{}, err
	}
	if err := durable.EnsureFile(p.path("kubeconfig"), kubeconfig, 0o600); err != nil {
		return process.Spec{}, err
	}
	probe, port, err := address(config)
	if err != nil {
		return process.Spec{}, err
	}
	// Another role is another user, about whom the caches of the program know nothing.
	read := sha256.Sum256(append(kubeconfig, roleARN...))
	return process.Spec{
		Name: p.processName(), Path: program, Revision: hex.EncodeToString(read[:8]),
		Args: []string{
			probeFlag + probe, "--metrics-bind-address=0", "--zap-devel=false",
			"--zap-encoder=json", "--graceful-shutdown-timeout=5s",
		},
		Env: []string{
			"KUBECONFIG=" + p.path("kubeconfig"), "HOME=" + p.path(""), "TZ=UTC",
			fmt.Sprintf("GOMEMLIMIT=%dMiB", memory>>20/10*8),
			"GOMAXPROCS=1", // users decide how much it has to do
		},
		Dir: p.path(""), Log: p.path("kro.log"), OOMScoreAdj: process.ControlPlaneOOMScoreAdj, MemoryLimit: memory,
		ConnectPorts: []int{port}, // it asks the API groups of the cluster's users, which may redirect it
	}, nil
}
