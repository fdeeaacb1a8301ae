package daemon

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/coracle-eks/coracle/internal/controller/controlplane"
	"github.com/coracle-eks/coracle/internal/datadir"
	"github.com/coracle-eks/coracle/internal/host/endpoint"
	"github.com/coracle-eks/coracle/internal/host/image"
	"github.com/coracle-eks/coracle/internal/host/machine"
	"github.com/coracle-eks/coracle/internal/host/metadata"
	"github.com/coracle-eks/coracle/internal/host/network"
	"github.com/coracle-eks/coracle/internal/host/rundir"
	"github.com/coracle-eks/coracle/internal/host/simulated"
	"github.com/coracle-eks/coracle/internal/host/usernamespace"
	"github.com/coracle-eks/coracle/internal/outbound"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/region"
	"github.com/coracle-eks/coracle/internal/upstream"
)

// ec2Principal assumes the roles of instances.
const ec2Principal = "ec2.amazonaws.com"

// RealMachines reports whether instances are machines with a network. They take root; without it they are simulated.
func RealMachines(s datadir.Settings) bool { return s.Machines == "namespace" && os.Geteuid() == 0 }

// publicRange is where public addresses are; the zero prefix without a network.
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

// userNamespaces reports whether machines get user namespaces of their own.
func (d *daemon) userNamespaces() bool {
	if d.settings.UserNamespaces == "off" {
		d.sharedUsers = "switched off"
	} else if err := usernamespace.Check(d.dir.Join("machines")); err != nil {
		d.sharedUsers = err.Error()
	}
	if d.sharedUsers != "" {
		d.log.Warn("machines have no user namespaces: root in a machine of an instance that is launched now can become root of this host", "reason", d.sharedUsers)
	}
	return d.sharedUsers == ""
}

// host is what stands in for Amazon's hardware.
type host struct {
	programs   *upstream.NodePrograms
	bundles    *upstream.Bundles
	components *upstream.Components // what images of add-ons are built from
	images     *image.Registry

	endpoints *endpoint.Controller
	// What follows is nil where machines are simulated.
	network *network.Network
	apis    *endpoint.APIs
}

func (d *daemon) openHost() (_ *host, err error) {
	h := &host{
		programs: upstream.OpenNodePrograms(upstream.Options{DataDir: string(d.dir)}),
		bundles:  upstream.OpenBundles(upstream.Options{Dir: d.config.Bundles, DataDir: string(d.dir)}),
	}
	h.components = upstream.OpenComponents(upstream.Options{DataDir: string(d.dir)})
	h.images, err = image.Open(image.Options{
		Outbound: d.outbound, Dir: d.dir.Join("images"), Owner: d.dir.Owner(), CA: d.authority.PEM, Programs: h.programs, Bundles: h.bundles, Components: h.components,
		Region: d.settings.Region, Log: d.log,
	})
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program, to serve endpoints with: %w", err)
	}
	doors := endpoint.Options{
		Store: d.store, Host: d.processes, Owner: d.dir.Owner(), Dir: d.dir.Join("endpoint"), LogFile: d.dir.Join("endpoint.log"), Program: self, Log: d.log,
	}
	if !RealMachines(d.settings) {
		h.endpoints, err = endpoint.New(doors)
		return h, err
	}
	machine.RaiseKernelLimits(d.log)
	public, err := d.publicRange()
	if err != nil {
		return nil, err
	}
	h.network, err = network.New(network.Options{
		Store: d.store, Owner: d.dir.Owner(), PublicRange: public, Region: d.settings.Region, UserNamespaces: d.userNamespaces(), Log: d.log,
	})
	if err != nil {
		return nil, err
	}
	if doors.Dir, err = rundir.Create(d.dir.Owner(), "endpoint"); err != nil {
		return nil, err
	}
	doors.Namespace, doors.PublicRange, doors.API = h.network.Namespace, public, network.APIAddress(public)
	doors.Webhooks = []string{d.webhookAddress()}
	if h.endpoints, err = endpoint.New(doors); err != nil {
		return nil, err
	}
	h.apis = endpoint.NewAPIs(endpoint.APIOptions{
		Store: d.store, Address: network.APIAddress(public), Namespace: h.network.Namespace, Routers: h.network.RouterSource(), Log: d.log,
	})
	return h, nil
}

func (h *host) close() error { return h.images.Close() }

// controllers make instances machines, and their surroundings real.
func (d *daemon) hostControllers(planes *controlplane.Controller) []reconcile.Controller {
	h := d.host
	all := h.endpoints.Controllers()
	if h.network == nil {
		return append(all, simulated.New(simulated.Options{
			Store: d.store, Dir: d.simulatedDir(), Egress: d.outbound, Webhooks: []string{d.webhookAddress()}, Credentials: d.profileCredentials, Config: planes.Config, Log: d.log,
			EC2: func(region string, who aws.CredentialsProvider) simulated.EC2 {
				return ec2.NewFromConfig(d.front.config(region, who))
			},
		}).Controllers()...)
	}
	machines := machine.New(machine.Options{
		Store: d.store, Owner: d.dir.Owner(), Dir: d.dir.Join("machines"), Processes: d.processes, Subscribe: d.events.subscribe, Network: h.network,
		Images: machine.Sources{
			Program: h.programs.Path, Kubernetes: h.bundles.Find, CABundle: d.authority.PEM,
			Sandbox: func(region, minor string) string { return image.References(region, minor)[image.Pause] },
			Golden:  h.images.NodeImages,
		}.Image,
		Log: d.log,
	})
	described := metadata.New(metadata.Options{
		Store: d.store, Network: h.network, Dir: d.dir.Join("metadata"), Credentials: d.instanceCredentials,
		ZoneID: func(code, zone string) string { return region.ZoneIDs(code)[zone] }, Log: d.log,
	})
	all = append(all, h.network.Controllers()...)
	all = append(all, h.apis.Controller())
	all = append(all, machines.Controllers()...)
	all = append(all, described.Controllers()...)
	return append(all, h.images.NodeImageController(d.store))
}

// simulatedDir is where simulated kubelets are found.
func (d *daemon) simulatedDir() string { return d.dir.Join("sim") }

// egressSockets are where a cluster's API server finds simulated kubelets, and the rest; they are empty where machines are real.
func (d *daemon) egressSockets(clusterID string) (cluster, managed string) {
	if RealMachines(d.settings) {
		return "", ""
	}
	return simulated.Socket(d.simulatedDir(), clusterID), simulated.ManagedSocket(d.simulatedDir(), clusterID)
}

// outboundPolicy says where the daemon connects to for users.
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

// profileCredentials are those that the profile of an instance gives it.
func (d *daemon) profileCredentials(ctx context.Context, instance record.Instance) (aws.Credentials, error) {
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

// instanceCredentials are those of the role of an instance, in a session named after it.
func (d *daemon) instanceCredentials(ctx context.Context, instance record.Instance, role string) (aws.Credentials, error) {
	r, err := record.Roles(d.store).Get(ctx, record.RoleKey(instance.Account, role))
	if err != nil {
		return aws.Credentials{}, fmt.Errorf("role %s: %w", role, err)
	}
	trusted, err := d.front.identity.Trusts(ctx, r.Value.ARN(), ec2Principal)
	if err != nil {
		return aws.Credentials{}, err
	}
	if !trusted {
		return aws.Credentials{}, fmt.Errorf("the trust policy of role %s does not let %s assume it", role, ec2Principal)
	}
	return d.front.identity.ServiceRoleCredentials(instance.Account, role, instance.ID).Retrieve(ctx)
}
