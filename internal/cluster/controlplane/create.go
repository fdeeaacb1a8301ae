package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/coracle-eks/coracle/internal/port"
	"github.com/coracle-eks/coracle/internal/process"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/upstream"
)

// create makes a recorded cluster a working one.
func (c *Controller) create(ctx context.Context, cluster record.Cluster, minor string) error {
	began := c.clock.Now()

	// What needs no API server: keys, the place in etcd, the place in the VPC, the program, a
	// port, certificates.
	p, err := c.prepare(ctx, cluster, minor)
	var unbuilt *unbuiltError
	if errors.As(err, &unbuilt) {
		// Waiting will not help.
		return c.observe(ctx, cluster, func(o *record.ControlPlane) { o.Failed = unbuilt.Error() })
	}
	if err != nil {
		return err
	}
	crashPrepared.Here()

	version, err := c.start(ctx, p)
	if err != nil {
		return err
	}
	if err := c.reach(ctx, cluster); err != nil {
		return err
	}
	crashBeforeReady.Here()
	err = c.observe(ctx, cluster, func(o *record.ControlPlane) {
		o.Ready = true
		o.Version, o.FullVersion = minor, version
	})
	if err != nil {
		return err
	}
	crashReady.Here()
	c.log.Info("cluster is ready", "cluster", cluster.Name, "version", version, "endpoint", p.endpoint(), "took", c.clock.Since(began))
	if err := c.maintain(ctx, cluster, minor); err != nil {
		return err
	}
	return c.spare()
}

// start brings the components of a new cluster up and EKS's objects into it, and says which
// version serves.
func (c *Controller) start(ctx context.Context, p plane) (version string, err error) {
	components, err := c.specify(p)
	if err != nil {
		return "", err
	}
	// Many at once would only be in each other's way.
	if err := c.starts.Acquire(ctx, 1); err != nil {
		return "", err
	}
	defer c.starts.Release(1)
	group, working := errgroup.WithContext(ctx)
	group.Go(func() error {
		if _, err := c.runAPIServer(working, p, components, c.o.StartTimeout); err != nil {
			return err
		}
		crashAPIServerReady.Here()
		return c.startControllers(working, p, components.others)
	})
	// The API server takes objects a second before it counts as ready: time enough for EKS's.
	group.Go(func() error {
		if err := c.awaitServing(working, p, components.apiServer.Name); err != nil {
			return err
		}
		return c.bootstrap(working, p)
	})
	if err := group.Wait(); err != nil {
		return "", err
	}
	return c.serverVersion(ctx, p)
}

// startControllers starts the controller manager and then, once it has made what users and tools
// look for first, the others: on few cores they would only be in its way.
func (c *Controller) startControllers(ctx context.Context, p plane, specs []process.Spec) error {
	if _, err := c.o.Host.Ensure(ctx, specs[0]); err != nil {
		return err
	}
	if err := c.awaitDefaultServiceAccount(ctx, p, specs[0].Name); err != nil {
		return err
	}
	for _, spec := range specs[1:] {
		if _, err := c.o.Host.Ensure(ctx, spec); err != nil {
			return err
		}
	}
	return nil
}

// awaitServing waits until the API server answers at all.
func (c *Controller) awaitServing(ctx context.Context, p plane, name string) error {
	config, client, err := c.bootstrapClient(p)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	return c.await(ctx, name, c.o.StartTimeout, func(ctx context.Context) error {
		_, err := get(ctx, client, config.Host+"/version")
		return err
	})
}

// prepare takes the steps that every control plane stands on, and records where it is to be found.
func (c *Controller) prepare(ctx context.Context, cluster record.Cluster, minor string) (plane, error) {
	p := plane{cluster: cluster, minor: minor}
	group, working := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		p.keys, err = c.keys(working, cluster)
		return err
	})
	group.Go(func() error { return c.admit(working, cluster) })
	group.Go(func() (err error) {
		p.network, err = c.attach(working, cluster)
		return err
	})
	group.Go(func() (err error) {
		p.program, err = c.bundle(working, cluster, minor)
		return err
	})
	if err := group.Wait(); err != nil {
		return p, err
	}
	var err error
	if err = c.place(ctx, &p); err != nil {
		return p, err
	}
	return p, c.issue(p)
}

// unbuiltError says that there is no bundle of the version and that none can be built.
type unbuiltError struct{ err error }

func (e *unbuiltError) Error() string { return e.err.Error() }
func (e *unbuiltError) Unwrap() error { return e.err }

func (c *Controller) bundle(ctx context.Context, cluster record.Cluster, minor string) (string, error) {
	path, err := c.o.Bundles.Ensure(ctx, minor, upstream.Milestones(func(p upstream.Progress) {
		c.log.Info("building the Kubernetes programs that the cluster needs", "cluster", cluster.Name, "progress", p)
	}))
	if err != nil && ctx.Err() == nil {
		return "", &unbuiltError{fmt.Errorf("the Kubernetes %s programs cannot be had: %w", minor, err)}
	}
	return path, err
}

// reach makes the cluster reachable as its endpoint access says.
func (c *Controller) reach(ctx context.Context, cluster record.Cluster) error {
	if err := c.o.Endpoints.Apply(ctx, cluster); err != nil {
		return fmt.Errorf("make the cluster's endpoint reachable: %w", err)
	}
	return nil
}

// place chooses where the cluster is to be found, and records it. Ports and the address of the public endpoint stay the
// same, unless another program took a port while its owner was down.
func (c *Controller) place(ctx context.Context, p *plane) error {
	c.ports.Lock()
	defer c.ports.Unlock()
	planes, err := c.planes.List(ctx, "")
	if err != nil {
		return err
	}
	var own record.ControlPlane
	var taken []int
	var publics []string
	for _, row := range planes {
		o := row.Value
		if o.Port, err = portOf(o); err != nil {
			return err
		}
		taken = append(taken, o.Port, o.ServerPort, o.SparePort)
		if row.Key == p.cluster.Key() {
			own = o
		} else {
			publics = append(publics, o.PublicAddress)
		}
	}
	choose := func(n *int, own int, good bool) error {
		if *n = own; own != 0 && good {
			return nil
		}
		if *n, err = port.Free(taken...); err != nil {
			return fmt.Errorf("choose a port for the API server: %w", err)
		}
		if own != 0 {
			c.log.Warn("another program has taken a port of the API server", "cluster", p.cluster.Name, "old", own, "new", *n)
		}
		taken = append(taken, *n)
		return nil
	}
	running := c.running(p.cluster.ID)
	if own.ServerPort == 0 { // an older Coracle's listen where the way to them is to begin
		for _, old := range running {
			if err := c.o.Host.Stop(ctx, old.Name); err != nil {
				return err
			}
		}
	}
	if err := choose(&p.port, own.Port, true); err != nil {
		return err
	}
	if err := choose(&p.server, own.ServerPort, len(running) > 0 || becomesFree(ctx, own.ServerPort)); err != nil {
		return err
	}
	if err := choose(&p.spare, own.SparePort, len(running) > 1 || free(own.SparePort)); err != nil {
		return err
	}
	public, err := c.o.Endpoints.PublicAddress(publics)
	if err != nil {
		return err
	}
	if public != "" && own.PublicAddress != "" { // it has one, and there is still a network
		public = own.PublicAddress
	}
	p.public = net.ParseIP(public)
	record := func() error {
		return c.observe(ctx, p.cluster, func(o *record.ControlPlane) {
			o.Port, o.ServerPort, o.SparePort = p.port, p.server, p.spare
			o.PublicAddress, o.Endpoint = public, p.endpoint()
			o.CertificateAuthority = p.keys.ca.pem
			o.ClusterSecurityGroupID, o.NetworkInterfaceIDs = p.network.securityGroup, p.network.interfaceIDs()
		})
	}
	if err := record(); err != nil {
		return err
	}
	err = c.o.Endpoints.Lead(ctx, p.cluster)
	if errors.Is(err, syscall.EADDRINUSE) {
		if err = choose(&p.port, own.Port, false); err == nil {
			err = errors.Join(record(), c.o.Endpoints.Lead(ctx, p.cluster))
		}
	}
	return err
}

// portOf is the recorded port of a cluster. An older Coracle recorded it in the endpoint alone.
func portOf(o record.ControlPlane) (int, error) {
	if o.Port != 0 || o.Endpoint == "" {
		return o.Port, nil
	}
	u, err := url.Parse(o.Endpoint)
	if err != nil {
		return 0, fmt.Errorf("recorded endpoint: %w", err)
	}
	return strconv.Atoi(u.Port())
}

// becomesFree reports whether nobody holds the port, or only for a moment more: a killed API server has lost
// its memory, by which it is known, some time before its sockets.
func becomesFree(ctx context.Context, n int) bool {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for !free(n) {
		select {
		case <-ctx.Done():
			return false
		case <-look.C:
		}
	}
	return true
}

func free(n int) bool {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(n)))
	if err != nil {
		return false
	}
	return l.Close() == nil
}
