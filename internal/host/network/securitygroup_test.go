//go:build linux

package network

import (
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/record"
)

// echo answers UDP packets.
func (w *fixture) echo(holder, address string) {
	w.Helper()
	var c net.PacketConn
	eventually.Nil(w, "listen on "+address, func() (err error) {
		c, err = w.ListenPacket(w.Context(), holder, "udp", address)
		return err
	})
	w.Cleanup(func() { c.Close() })
	go func() {
		b := make([]byte, 2000)
		for {
			n, from, err := c.ReadFrom(b)
			if err != nil {
				return
			}
			c.WriteTo(b[:n], from)
		}
	}()
}

// send sends a UDP packet and waits for its echo.
func (w *fixture) send(holder, address string, wanted bool) error {
	return w.In(holder, func() error {
		c, err := net.Dial("udp", address)
		if err != nil {
			return err
		}
		defer c.Close()
		return persist(wanted, func() error {
			c.SetDeadline(time.Now().Add(patience(false)))
			if _, err := io.WriteString(c, "hello"); err != nil {
				return err
			}
			_, err := c.Read(make([]byte, 10))
			return err
		})
	})
}

// ping sends an ICMP echo request and waits for the reply.
func (w *fixture) ping(holder, address string, wanted bool) error {
	return w.In(holder, func() error {
		c, err := net.Dial("ip4:icmp", address)
		if err != nil {
			return err
		}
		defer c.Close()
		return persist(wanted, func() error {
			c.SetDeadline(time.Now().Add(patience(false)))
			// Type 8, code 0, checksum, identifier 1, sequence number 1.
			if _, err := c.Write([]byte{8, 0, 0xf7, 0xfd, 0, 1, 0, 1}); err != nil {
				return err
			}
			for b := make([]byte, 1500); ; {
				n, _, err := c.(*net.IPConn).ReadFrom(b)
				if err != nil {
					return err
				}
				if n > 0 && b[0] == 0 {
					return nil
				}
			}
		})
	})
}

// persist tries what is wanted several times, as TCP would, and what is not once.
func persist(wanted bool, f func() error) error {
	if !wanted {
		return f()
	}
	return eventually.Try(10*time.Millisecond, f)
}

// attempt makes a call, or sends a datagram or a ping.
func (w *fixture) attempt(protocol, holder, address string, port int, wanted bool) (err error) {
	switch protocol {
	case "tcp":
		_, err = callFrom(w.Context(), w.Namespace(holder), "", fmt.Sprintf("%s:%d", address, port), wanted)
	case "udp":
		err = w.send(holder, fmt.Sprintf("%s:%d", address, port), wanted)
	default:
		err = w.ping(holder, address, wanted)
	}
	return err
}

func TestSecurityGroups(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	v := w.newVPC("10.0.0.0/16")
	s1, s2 := w.newSubnet(v, "10.0.1.0/24"), w.newSubnet(v, "10.0.2.0/24")
	out := everything(true)
	clients := w.newGroup(v, out)
	servers := w.newGroup(v, out,
		record.SecurityGroupRule{Protocol: "tcp", FromPort: 80, ToPort: 80, CIDRIPv4: "10.0.1.0/24"},
		record.SecurityGroupRule{Protocol: "tcp", FromPort: 443, ToPort: 443, CIDRIPv4: "10.0.1.10/32"},
		record.SecurityGroupRule{Protocol: "tcp", FromPort: 8000, ToPort: 8010, GroupID: clients.ID},
		record.SecurityGroupRule{Protocol: "udp", FromPort: 53, ToPort: 53, GroupID: clients.ID},
		record.SecurityGroupRule{Protocol: "icmp", FromPort: 8, ToPort: -1, CIDRIPv4: "10.0.1.0/24"},
		record.SecurityGroupRule{Protocol: "6", FromPort: -1, ToPort: -1, CIDRIPv4: "10.0.2.11/32"},
	)
	jail := w.newGroup(v, record.SecurityGroupRule{Egress: true, Protocol: "tcp", FromPort: 80, ToPort: 80,
		CIDRIPv4: "10.0.2.0/24"})
	itself := w.newGroup(v, out)
	change(w, record.SecurityGroups, itself, func(g *record.SecurityGroup) {
		g.Rules = append(g.Rules, record.SecurityGroupRule{Protocol: "-1", FromPort: -1, ToPort: -1,
			GroupID: itself.ID})
	})
	dead := w.newGroup(v)

	groups := func(g ...record.SecurityGroup) []record.SecurityGroup { return g }
	client := w.newENI(s1, "", 0, groups(clients), "10.0.1.10", "10.0.1.110")
	stranger := w.newENI(s2, "", 0, groups(itself), "10.0.2.10")
	privileged := w.newENI(s2, "", 0, groups(itself), "10.0.2.11")
	jailed := w.newENI(s1, "", 0, groups(jail), "10.0.1.12")
	both := w.newENI(s1, "", 0, groups(jail, clients), "10.0.1.13")
	mute := w.newENI(s1, "", 0, groups(dead), "10.0.1.14")
	server := w.newENI(s2, "", 0, groups(servers), "10.0.2.20")
	crowded := w.newENI(s1, "", 0, groups(dead, jail, itself, w.newGroup(v), clients), "10.0.1.15")
	w.plugged(client, stranger, privileged, jailed, both, mute, crowded, server)
	for _, port := range []int{80, 443, 7999, 8000, 8005, 8010, 8011} {
		w.serve(instanceOf(server), fmt.Sprintf("10.0.2.20:%d", port))
	}
	w.echo(instanceOf(server), "10.0.2.20:53")
	w.echo(instanceOf(server), "10.0.2.20:54")
	w.serve(instanceOf(client), "10.0.1.10:80")
	w.serve(instanceOf(privileged), "10.0.2.11:80")
	w.serve(instanceOf(crowded), "10.0.1.15:80")

	for _, c := range []struct {
		what     string
		from     record.NetworkInterface
		protocol string
		to       string
		port     int
		allowed  bool
	}{
		{"a block allows its addresses", client, "tcp", "10.0.2.20", 80, true},
		{"a block allows no others", stranger, "tcp", "10.0.2.20", 80, false},
		{"a single address is a block", client, "tcp", "10.0.2.20", 443, true},
		{"the neighbor of a single address is not in it", both, "tcp", "10.0.2.20", 443, false},
		{"below a range of ports", client, "tcp", "10.0.2.20", 7999, false},
		{"first of a range of ports", client, "tcp", "10.0.2.20", 8000, true},
		{"inside a range of ports", client, "tcp", "10.0.2.20", 8005, true},
		{"last of a range of ports", client, "tcp", "10.0.2.20", 8010, true},
		{"above a range of ports", client, "tcp", "10.0.2.20", 8011, false},
		{"a group does not allow others", stranger, "tcp", "10.0.2.20", 8005, false},
		{"UDP by group", client, "udp", "10.0.2.20", 53, true},
		{"UDP at another port", client, "udp", "10.0.2.20", 54, false},
		{"UDP of a stranger", stranger, "udp", "10.0.2.20", 53, false},
		{"ping from the block", client, "icmp", "10.0.2.20", 0, true},
		{"ping from elsewhere", stranger, "icmp", "10.0.2.20", 0, false},
		{"a protocol by number, all ports", privileged, "tcp", "10.0.2.20", 8011, true},
		{"a protocol by number is no other", privileged, "udp", "10.0.2.20", 53, false},
		{"egress allows", jailed, "tcp", "10.0.2.20", 80, true},
		{"egress refuses another protocol", jailed, "icmp", "10.0.2.20", 0, false},
		{"egress refuses another block", jailed, "tcp", "10.0.1.10", 80, false},
		{"groups add up", both, "udp", "10.0.2.20", 53, true},
		{"one of five groups allows egress", crowded, "udp", "10.0.2.20", 53, true},
		{"one of five groups allows ingress", stranger, "tcp", "10.0.1.15", 80, true},
		{"none of five groups allows ingress", client, "tcp", "10.0.1.15", 80, false},
		{"no egress rule, no egress", mute, "tcp", "10.0.2.20", 80, false},
		{"no ingress rule, no ingress, within a subnet too", both, "tcp", "10.0.1.10", 80, false},
		{"members of a group that refers to itself", stranger, "tcp", "10.0.2.11", 80, true},
		{"others to a group that refers to itself", client, "tcp", "10.0.2.11", 80, false},
	} {
		t.Run(c.what, func(t *testing.T) {
			err := w.attempt(c.protocol, instanceOf(c.from), c.to, c.port, c.allowed)
			if (err == nil) != c.allowed {
				t.Errorf("%s from %s to %s port %d: got %v, want allowed %v", c.protocol, c.from.PrivateIPs[0], c.to,
					c.port, err, c.allowed)
			}
		})
	}
	t.Run("secondary addresses belong to the group", func(t *testing.T) {
		w.addAddress(client, "10.0.1.110")
		if _, err := w.call(instanceOf(client), "10.0.1.110", "10.0.2.20:8005"); err != nil {
			t.Error(err)
		}
	})
	t.Run("changes apply to live traffic", func(t *testing.T) {
		old := w.connect(instanceOf(client), "10.0.2.20:8005")
		change(w, record.SecurityGroups, servers, func(g *record.SecurityGroup) { g.Rules = g.Rules[:2] })
		w.waitForRules(v)
		w.reaches(instanceOf(client), "10.0.2.20:8005", false)
		w.reaches(instanceOf(client), "10.0.2.20:80", true)
		old.alive()
		change(w, record.NetworkInterfaces, client,
			func(e *record.NetworkInterface) { e.SecurityGroupIDs = []string{dead.ID} })
		w.waitForRules(v)
		w.reaches(instanceOf(client), "10.0.2.20:80", false)
	})
}

// addAddress gives an address of the ENI to eth0 of its instance, as a guest would.
func (w *fixture) addAddress(e record.NetworkInterface, address string) {
	w.Helper()
	w.run(instanceOf(e), "ip", "addr", "replace", address+"/32", "dev", "eth0")
}

// connection is an open connection to a server of [fixture.serve].
type connection struct {
	w *fixture
	net.Conn
}

func (w *fixture) connect(holder, address string) connection {
	w.Helper()
	var c net.Conn
	eventually.Nil(w, "connect to "+address, func() (err error) {
		c, err = w.Dial(w.Context(), holder, "tcp", address)
		if err != nil && !errors.Is(err, unix.EINVAL) {
			// a black hole, until the controller of the internet knows the address
			return eventually.Never(err)
		}
		return err
	})
	w.Cleanup(func() { c.Close() })
	var seen string
	c.SetDeadline(time.Now().Add(eventually.Limit))
	if _, err := fmt.Fscanln(c, &seen); err != nil {
		w.Fatal(err)
	}
	return connection{w, c}
}

// alive fails the test unless the connection still echoes.
func (c connection) alive() {
	c.w.Helper()
	c.SetDeadline(time.Now().Add(eventually.Limit))
	if _, err := io.WriteString(c, "x"); err != nil {
		c.w.Error(err)
	}
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		c.w.Errorf("an established connection ended: %v", err)
	}
}
