package daemon

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/coracle-eks/coracle/internal/aws/iam/identity"
	"github.com/coracle-eks/coracle/internal/controller/controlplane"
	"github.com/coracle-eks/coracle/internal/datadir"
	"github.com/coracle-eks/coracle/internal/host/endpoint"
	"github.com/coracle-eks/coracle/internal/host/image"
	"github.com/coracle-eks/coracle/internal/host/simulated"
	"github.com/coracle-eks/coracle/internal/kube/extensionmetrics"
	"github.com/coracle-eks/coracle/internal/nodeimage"
	"github.com/coracle-eks/coracle/internal/outbound"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/upstream"
)

// ec2Principal assumes the roles of instances.
const ec2Principal = "ec2.amazonaws.com"

// RealMachines reports whether instances are machines with a network. They take root, and a host that allows them;
// without either they are simulated. They take Linux, too; without it a daemon that root wants to have them does not
// start.
func RealMachines(s datadir.Settings) bool {
	return s.Machines == "namespace" && os.Geteuid() == 0 && s.Simulated == ""
}

// publicRange returns the range of public addresses; the zero prefix without a network.
func (d *daemon) publicRange() (netip.Prefix, error) {
	if !RealMachines(d.settings) {
		return netip.Prefix{}, nil
	}
	public, err := netip.ParsePrefix(d.settings.PublicRange)
	if err != nil {
		return public, fmt.Errorf("publicRange in %s: %w", d.dir.SettingsFile(), err)
	}
	return public, nil
}

// host has the controllers and services that stand in for Amazon's hardware.
type host struct {
	programs   *upstream.NodePrograms
	components *upstream.Components // what images of add-ons are built from
	base       *nodeimage.Base
	images     *image.Registry

	endpoints *endpoint.Controller
	// What follows is nil where machines are simulated.
	real *realHost
	apis *endpoint.APIs
	// hostAddress is that from which this host reaches public addresses; not valid where machines are simulated.
	hostAddress netip.Addr
}

func (d *daemon) openHost() (_ *host, err error) {
	h := &host{programs: upstream.OpenNodePrograms(upstream.Options{DataDir: string(d.dir)})}
	h.base = nodeimage.NewBase(d.dir.Join("node-image"), func(ctx context.Context) (string, error) {
		if err := h.programs.EnsureImage(ctx, nil); err != nil {
			return "", err
		}
		return h.programs.Image()
	})
	h.components = upstream.OpenComponents(upstream.Options{DataDir: string(d.dir)})
	h.images, err = image.Open(image.Options{
		Outbound: d.outbound, Dir: d.dir.Join("images"), Owner: d.dir.Owner(), CA: d.authority.PEM,
		Programs: h.programs, Bundles: d.bundles, Components: h.components, Base: h.base.Dir,
		Region: d.settings.Region, Log: d.log,
	})
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program, to serve endpoints with: %w", err)
	}
	options := endpoint.Options{
		Store: d.store, Host: d.processes, Owner: d.dir.Owner(), Dir: d.dir.Join("endpoint"),
		LogFile: d.dir.Join("endpoint.log"), Program: self, Log: d.log,
		Metrics: d.metricsAPI,
	}
	if !RealMachines(d.settings) {
		h.endpoints, err = endpoint.New(options)
		return h, err
	}
	return h, d.openRealHost(h, options)
}

func (h *host) close() error { return h.images.Close() }

// hostControllers returns the controllers that run the machines of instances, and their networks, images and metadata.
func (d *daemon) hostControllers(ctx context.Context, planes *controlplane.Controller) []reconcile.Controller {
	h := d.host
	all := h.endpoints.Controllers()
	if h.real == nil {
		all = append(all, simulated.NewVolumes(d.store).Controllers()...)
		all = append(all, simulated.NewBalancers(d.store).Controllers()...)
		machines := simulated.New(simulated.Options{
			Store: d.store, Dir: d.simulatedDir(), Egress: d.outbound, Webhooks: []string{d.webhookAddress()},
			Metrics: d.metricsAPI, Credentials: d.profileCredentials, Config: planes.Config, Log: d.log,
			EC2: func(region string, who aws.CredentialsProvider) simulated.EC2 {
				return ec2.NewFromConfig(d.api.clientConfig(region, who))
			},
		})
		if d.embedded != nil { // otherwise the controllers may run elsewhere
			machines.Listen(ctx)
		}
		return append(all, machines.Controllers()...)
	}
	return append(all, d.realControllers()...)
}

// noContents is the content of volumes where machines are simulated: those have none.
type noContents struct{}

func (noContents) Hold() error   { return nil }
func (noContents) IDs() []string { return nil }
func (noContents) Open(context.Context, string, *os.File) (*os.File, error) {
	return nil, os.ErrNotExist
}
func (noContents) Release() {}

// simulatedDir returns the directory with the sockets of simulated kubelets.
func (d *daemon) simulatedDir() string { return d.dir.Join("sim") }

// egressSockets returns the sockets through which a cluster's API server reaches simulated kubelets, and everything
// else; they are empty where machines are real.
func (d *daemon) egressSockets(clusterID string) (cluster, managed string) {
	if RealMachines(d.settings) {
		return "", ""
	}
	return simulated.Socket(d.simulatedDir(), clusterID), simulated.ManagedSocket(d.simulatedDir(), clusterID)
}

// metricsAPI returns what serves the metrics of a control plane to its API server.
func (d *daemon) metricsAPI(plane record.ControlPlane) extensionmetrics.Config {
	return controlplane.MetricsAPI(d.dir.Join("clusters"), plane)
}

// outboundPolicy returns the policy for connections of the daemon on behalf of users.
func (d *daemon) outboundPolicy() (p outbound.Policy, err error) {
	if p.Allow, err = outbound.ParsePrefixes(d.settings.EgressCIDRs); err != nil {
		return p, fmt.Errorf("egressCidrs in %s: %w", d.dir.SettingsFile(), err)
	}
	public, err := d.publicRange()
	if public.IsValid() {
		p.Deny = []netip.Prefix{public}
	}
	return p, err
}

// profileCredentials returns the credentials that the profile of an instance gives it; those of the pod execution role
// for the machine of a Fargate pod.
func (d *daemon) profileCredentials(ctx context.Context, instance record.Instance) (aws.Credentials, error) {
	if instance.Fargate != nil {
		return d.fargateCredentials(ctx, instance)
	}
	name := path.Base(instance.InstanceProfileARN)
	if instance.InstanceProfileARN == "" {
		return aws.Credentials{}, fmt.Errorf("instance %s has no instance profile", instance.ID)
	}
	profile, err := record.InstanceProfiles(d.store).Get(ctx, record.InstanceProfileKey(instance.Account, name))
	if err != nil {
		return aws.Credentials{}, fmt.Errorf("instance profile %s: %w", name, err)
	}
	if profile.Value.Role == "" {
		return aws.Credentials{}, fmt.Errorf("instance profile %s holds no role", name)
	}
	return d.instanceCredentials(ctx, instance, profile.Value.Role)
}

// instanceCredentials returns credentials of the role of an instance, in a session named after the instance.
func (d *daemon) instanceCredentials(ctx context.Context, instance record.Instance, role string) (
	aws.Credentials, error) {
	r, err := record.Roles(d.store).Get(ctx, record.RoleKey(instance.Account, role))
	if err != nil {
		return aws.Credentials{}, fmt.Errorf("role %s: %w", role, err)
	}
	trusted, err := d.api.identity.Trusts(ctx, r.Value.ARN(), ec2Principal)
	if err != nil {
		return aws.Credentials{}, err
	}
	if !trusted {
		return aws.Credentials{}, fmt.Errorf("the trust policy of role %s does not let %s assume it", role,
			ec2Principal)
	}
	return d.api.identity.ServiceRoleCredentials(instance.Account, role, instance.ID).Retrieve(ctx)
}

// fargatePrincipal assumes pod execution roles.
// https://docs.aws.amazon.com/eks/latest/userguide/pod-execution-role.html
const fargatePrincipal = "eks-fargate-pods.amazonaws.com"

// fargateCredentials returns credentials of the pod execution role of a Fargate machine, in a session named after its
// node.
func (d *daemon) fargateCredentials(ctx context.Context, instance record.Instance) (aws.Credentials, error) {
	role, err := d.api.identity.TrustedRole(ctx, instance.Fargate.RoleARN, fargatePrincipal, instance.Fargate.ProfileARN)
	if err == nil && role.Account != instance.Account {
		err = identity.ErrNotTrusted
	}
	if err != nil {
		return aws.Credentials{}, fmt.Errorf("%s cannot assume the pod execution role: %w", fargatePrincipal, err)
	}
	return d.api.identity.ServiceRoleCredentials(role.Account, role.Name, instance.Fargate.NodeName).Retrieve(ctx)
}
