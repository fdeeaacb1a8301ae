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

	"github.com/coracle-eks/coracle/internal/freeport"
	"github.com/coracle-eks/coracle/internal/record"
)

// choosePorts chooses the ports and the public address of a cluster, records them, and has the first port forwarded to
// the API server. They stay the same, unless another program took a port while the component was down.
func (c *Controller) choosePorts(ctx context.Context, p *plane) error {
	ctx, release, err := c.ports.Acquire(ctx, p.cluster.Account)
	if err != nil {
		return err
	}
	defer release()
	own, others, err := c.recordedAddresses(ctx, p.cluster)
	if err != nil {
		return err
	}
	running := c.runningAPIServers(p.cluster.ID)
	if own.ServerPort == 0 { // those of an older Coracle listen on the port that is forwarded now
		for _, old := range running {
			if err := c.o.Host.Stop(ctx, old.Name); err != nil {
				return err
			}
		}
	}
	if p.port, err = c.choosePort(p.cluster, own.Port, true, &others); err != nil {
		return err
	}
	usable := len(running) > 0 || becomesFree(ctx, own.ServerPort)
	if p.server, err = c.choosePort(p.cluster, own.ServerPort, usable, &others); err != nil {
		return err
	}
	usable = len(running) > 1 || isFreePort(own.StandbyPort)
	if p.standby, err = c.choosePort(p.cluster, own.StandbyPort, usable, &others); err != nil {
		return err
	}
	public, err := c.o.Endpoints.PublicAddress(others.public)
	if err != nil {
		return err
	}
	if public != "" && own.PublicAddress != "" { // it has one, and there is still a network
		public = own.PublicAddress
	}
	p.public = net.ParseIP(public)
	if err := c.recordAddresses(ctx, p, public); err != nil {
		return err
	}
	err = c.o.Endpoints.ForwardPort(ctx, p.cluster)
	if !errors.Is(err, syscall.EADDRINUSE) {
		return err
	}
	if p.port, err = c.choosePort(p.cluster, own.Port, false, &others); err != nil {
		return err
	}
	return errors.Join(c.recordAddresses(ctx, p, public), c.o.Endpoints.ForwardPort(ctx, p.cluster))
}

// addresses are the ports and public addresses that clusters have.
type addresses struct {
	ports  []int
	public []string // without those of the cluster in question
}

// recordedAddresses returns the observed record of a cluster, and the addresses of all clusters.
func (c *Controller) recordedAddresses(
	ctx context.Context, cluster record.Cluster,
) (own record.ControlPlane, all addresses, err error) {
	planes, err := c.planes.List(ctx, "")
	if err != nil {
		return own, all, err
	}
	for _, row := range planes {
		o := row.Value
		if o.Port, err = recordedPort(o); err != nil {
			return own, all, err
		}
		all.ports = append(all.ports, o.Port, o.ServerPort, o.StandbyPort)
		if row.Key == cluster.Key() {
			own = o
		} else {
			all.public = append(all.public, o.PublicAddress)
		}
	}
	return own, all, nil
}

// choosePort returns the port that the cluster has, if it is usable, or else a free one, which it adds to taken.
func (c *Controller) choosePort(cluster record.Cluster, own int, usable bool, taken *addresses) (int, error) {
	if own != 0 && usable {
		return own, nil
	}
	chosen, err := freeport.Find(taken.ports...)
	if err != nil {
		return 0, fmt.Errorf("choose a port for the API server: %w", err)
	}
	if own != 0 {
		c.log.Warn("another program has taken a port of the API server", "cluster", cluster.Name, "old", own, "new",
			chosen)
	}
	taken.ports = append(taken.ports, chosen)
	return chosen, nil
}

// recordAddresses records the ports, addresses and certificate authority of a cluster.
func (c *Controller) recordAddresses(ctx context.Context, p *plane, publicAddress string) error {
	return c.observe(ctx, p.cluster, func(o *record.ControlPlane) {
		o.Port, o.ServerPort, o.StandbyPort = p.port, p.server, p.standby
		o.PublicAddress, o.Endpoint = publicAddress, p.endpoint()
		o.CertificateAuthority = p.keys.trusted.bundle()
		o.ClusterSecurityGroupID, o.NetworkInterfaceIDs = p.network.securityGroup, p.network.interfaceIDs()
	})
}

// recordedPort returns the recorded port of a cluster. An older Coracle recorded it in the endpoint alone.
func recordedPort(o record.ControlPlane) (int, error) {
	if o.Port != 0 || o.Endpoint == "" {
		return o.Port, nil
	}
	u, err := url.Parse(o.Endpoint)
	if err != nil {
		return 0, fmt.Errorf("recorded endpoint: %w", err)
	}
	return strconv.Atoi(u.Port())
}

// becomesFree reports whether a port is free, or becomes free within three seconds: the sockets of a killed API server
// outlive the process for a moment.
func becomesFree(ctx context.Context, n int) bool {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for !isFreePort(n) {
		select {
		case <-ctx.Done():
			return false
		case <-ticker.C:
		}
	}
	return true
}

func isFreePort(n int) bool {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(n)))
	if err != nil {
		return false
	}
	return l.Close() == nil
}
