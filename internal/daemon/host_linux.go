package daemon

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/netip"

	logsservice "github.com/coracle-eks/coracle/internal/aws/logs"
	"github.com/coracle-eks/coracle/internal/backup"
	"github.com/coracle-eks/coracle/internal/controller/logdelivery"
	"github.com/coracle-eks/coracle/internal/controller/resourceusage"
	"github.com/coracle-eks/coracle/internal/datadir"
	"github.com/coracle-eks/coracle/internal/host/balancer"
	"github.com/coracle-eks/coracle/internal/host/endpoint"
	"github.com/coracle-eks/coracle/internal/host/image"
	"github.com/coracle-eks/coracle/internal/host/machine"
	"github.com/coracle-eks/coracle/internal/host/machine/rootvolume"
	"github.com/coracle-eks/coracle/internal/host/metadata"
	"github.com/coracle-eks/coracle/internal/host/mounttarget"
	"github.com/coracle-eks/coracle/internal/host/network"
	"github.com/coracle-eks/coracle/internal/host/preflight"
	"github.com/coracle-eks/coracle/internal/host/rundir"
	"github.com/coracle-eks/coracle/internal/host/usernamespace"
	"github.com/coracle-eks/coracle/internal/host/volume"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/region"
)

// realHost has what stands in for Amazon's hardware where machines are not simulated.
type realHost struct {
	network *network.Network
	volumes *volume.Controller
	// balancers runs load balancers.
	balancers *balancer.Controller
}

// balancerLogs is the directory in the data directory in which the logs of load balancers wait for their delivery.
const balancerLogs = "balancer-logs"

// volumeContents returns the content of volumes and snapshots.
func (d *daemon) volumeContents() backup.Contents {
	if d.host.real == nil {
		return noContents{}
	}
	return d.host.real.volumes.Contents()
}

// choosePublicRange chooses where the public addresses of a daemon are.
func choosePublicRange(ctx context.Context, dir datadir.Dir) (netip.Prefix, error) {
	return network.ChoosePublicRange(ctx, dir.Owner(), string(dir))
}

// machineProblems returns why this host cannot have machines of dir's daemon.
func machineProblems(dir datadir.Dir) []preflight.Problem {
	return preflight.CheckMachines(string(dir))
}

// userNamespaces reports whether machines get user namespaces of their own.
func (d *daemon) userNamespaces() bool {
	if d.settings.UserNamespaces == "off" {
		d.sharedUsers = "switched off"
	} else if err := usernamespace.Check(d.dir.Join("machines")); err != nil {
		d.sharedUsers = err.Error()
	}
	if d.sharedUsers != "" {
		d.log.Warn("machines have no user namespaces: "+
			"root in a machine of an instance that is launched now can become root of this host",
			"reason", d.sharedUsers)
	}
	return d.sharedUsers == ""
}

// rootVolumes looks whether machines can keep their files on root volumes.
func (d *daemon) rootVolumes() {
	if err := rootvolume.Check(); err != nil {
		d.sharedDisk = err.Error()
		d.log.Warn("root volumes have no size: a machine of an instance that is launched now can fill the disk of the data "+
			"directory", "reason", d.sharedDisk)
	}
}

// openRealHost opens the network of machines, and the endpoints in it.
func (d *daemon) openRealHost(h *host, options endpoint.Options) error {
	machine.RaiseKernelLimits(d.log)
	if hasMachines(d.dir) { // otherwise they would be simulated
		d.unavailable = explainProblems(machineProblems(d.dir))
	}
	d.rootVolumes()
	public, err := d.publicRange()
	if err != nil {
		return err
	}
	vpcs, err := network.New(network.Options{
		Store: d.store, Owner: d.dir.Owner(), PublicRange: public, Region: d.settings.Region,
		UserNamespaces: d.userNamespaces(), Log: d.log,
	})
	if err != nil {
		return err
	}
	if options.Dir, err = rundir.Create(d.dir.Owner(), "endpoint"); err != nil {
		return err
	}
	options.Namespace, options.PublicRange, options.API = vpcs.Namespace, public, network.APIAddress(public)
	options.Webhooks, options.ForwardsS3 = []string{d.webhookAddress()}, forwards(d.settings, "s3")
	if h.endpoints, err = endpoint.New(options); err != nil {
		return err
	}
	h.hostAddress = network.HostAddress(public)
	h.apis = endpoint.NewAPIs(endpoint.APIOptions{
		Store: d.store, Address: network.APIAddress(public), Namespace: vpcs.Namespace,
		Routers: vpcs.RouterSource(), Log: d.log,
	})
	h.real = &realHost{network: vpcs, volumes: volume.New(volume.Options{
		Store: d.store, Owner: d.dir.Owner(), Dir: d.dir.VolumesDir(), Machines: d.dir.Join("machines"), Log: d.log,
	})}
	forwards, err := rundir.Create(d.dir.Owner(), balancer.ProcessName)
	if err != nil {
		return err
	}
	h.real.balancers = balancer.New(balancer.Options{Store: d.store, Network: vpcs, Log: d.log, Outbound: d.outbound,
		LogDir: d.dir.Join(balancerLogs),
		Process: &endpoint.Process{
			Host: d.processes, Name: balancer.ProcessName, Dir: forwards, LogFile: d.dir.Join("balancer.log"),
			Program: options.Program, MemoryLimit: "256MiB",
			// Each request makes garbage, and little stays: collecting seldom makes requests cheaper.
			GarbagePercent: 400,
		},
	})
	return nil
}

// measureMachine returns what the machine of an instance takes, by the process that launched it.
func (d *daemon) measureMachine(instanceID string, launcher int) (resourceusage.Machine, error) {
	m, err := machine.Measure(d.dir.Owner(), instanceID, launcher)
	return resourceusage.Machine(m), err
}

// diskActivities returns what was read from and written to volumes, by instance and volume.
func (d *daemon) diskActivities() (map[string]map[string]resourceusage.DiskActivity, error) {
	found, err := machine.DiskActivities(d.dir.Owner())
	all := make(map[string]map[string]resourceusage.DiskActivity, len(found))
	for instance, volumes := range found {
		all[instance] = make(map[string]resourceusage.DiskActivity, len(volumes))
		for volume, activity := range volumes {
			all[instance][volume] = resourceusage.DiskActivity(activity)
		}
	}
	return all, err
}

// realControllers make instances machines, and their surroundings real.
func (d *daemon) realControllers() []reconcile.Controller {
	h, vpcs := d.host, d.host.real.network
	var unavailable error
	if d.unavailable != "" {
		// Otherwise a launch would wait for its network for ever.
		unavailable = fmt.Errorf("this host cannot have machines: %s (\"coracle doctor\" tells how it can)",
			d.unavailable)
		d.log.Error("no machine is launched, as the host lacks what machines need; it has machines of an earlier start",
			"reason", d.unavailable)
	}
	described := metadata.New(metadata.Options{
		Store: d.store, Network: vpcs, Dir: d.dir.Join("metadata"), Credentials: d.instanceCredentials,
		FargateCredentials: d.fargateCredentials,
		TLS: &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
			GetCertificate: newCertificates(d.authority, metadata.SecureAddress).getCertificate},
		ZoneID: func(code, zone string) string { return region.ZoneIDs(code)[zone] }, Log: d.log,
	})
	machines := machine.New(machine.Options{
		Unavailable: unavailable,
		Store:       d.store, Owner: d.dir.Owner(), Dir: d.dir.Join("machines"), Processes: d.processes,
		Subscribe: d.events.subscribe, Network: vpcs, FargateToken: described.FargateToken,
		Images: machine.Sources{
			Program: h.programs.Path, Kubernetes: d.bundles.Find, CABundle: d.authority.PEM,
			Sandbox: func(region, minor string) string { return image.References(region, minor)[image.Pause] },
			Golden:  h.images.NodeImages, Base: h.base.Dir,
		}.Image,
		Log: d.log,
	})
	mounts := mounttarget.New(mounttarget.Options{
		Store: d.store, Network: vpcs, Authorizer: d.api.efs, Root: d.dir.FileSystemRoot,
		Machines: d.dir.Join("machines"), Log: d.log,
	})
	all := vpcs.Controllers()
	all = append(all, h.apis.Controller())
	all = append(all, machines.Controllers()...)
	all = append(all, h.real.volumes.Controllers()...)
	all = append(all, mounts.Controllers()...)
	all = append(all, h.real.balancers.Controllers()...)
	all = append(all, logdelivery.New(logdelivery.Options{
		Store: d.store, Events: d.logs.events, Streams: logsservice.NewDeliveryStreams(d.store),
		Dir: d.dir.Join(balancerLogs), Log: d.log,
	}).Controllers()...)
	all = append(all, described.Controllers()...)
	return append(all, h.images.NodeImageController(d.store))
}
