//go:build linux

package network

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// Connections to the internet take entries of the host's connection table (nf_conntrack_max), which is that of the
// host's own programs, too. Without a bound one pod fills it within seconds, and nobody else gets a connection.
//
// The kernel counts connections in lists, and walks a list for a new connection. So the connections of an address are
// divided by a hash of their other end and their ports into many short lists. A list does not count TCP connections
// that are closed, which the table has for two more minutes: those are bounded by the rate of new connections.

const (
	addressLists = 64   // of one public address
	totalLists   = 1024 // of all public addresses
	// closedTime is the time for which the kernel keeps a closed TCP connection, in seconds.
	closedTime = 120
)

// connectionBounds are those of new connections from VPCs to what is beyond the host.
type connectionBounds struct {
	list         uint32 // connections in a list
	rate, burst  uint32 // new connections per second, of all addresses
	rateOf, most uint32 // and of one address
}

// boundsOf divides a connection table: three eighths are for open connections of VPCs, a third is for closed ones, a
// sixteenth for a burst of those, and the rest is the host's.
func boundsOf(table uint32) connectionBounds {
	rate := max(4, table/3/closedTime)
	return connectionBounds{
		list: max(1, table*3/8/totalLists),
		rate: rate, burst: max(4, table/16),
		rateOf: rate / 4, most: max(1, table/64),
	}
}

// connectionTable returns the size of the host's connection table.
func connectionTable() uint32 {
	const usual = 65536 // the kernel's where there is little memory
	text, err := os.ReadFile("/proc/sys/net/netfilter/nf_conntrack_max")
	if err != nil {
		return usual
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 32)
	if err != nil || n == 0 { // zero is no bound
		return usual
	}
	return uint32(min(n, 1<<28))
}

// applyBounded applies rules with bounds, or without any where the kernel cannot have them.
//
// A kernel that lacks an expression says ENOENT or EOPNOTSUPP. It says so, too, when somebody else changes tables or
// links at the same time. So it is asked by itself what it can; when that is all, the rules that are in force stay, and
// the error has the pass repeated.
func (n *Network) applyBounded(apply, probe func(connectionBounds) error) error {
	bounds := boundsOf(connectionTable())
	err := apply(bounds)
	if err == nil {
		n.unbounded.Store(false)
	}
	if !isNotSupported(err) {
		return err
	}
	if missing := probe(bounds); !isNotSupported(missing) {
		return fmt.Errorf("bound the connections of VPCs to the internet: %w", errors.Join(err, missing))
	}
	if n.unbounded.CompareAndSwap(false, true) {
		n.o.Log.Warn("the kernel cannot bound the connections of VPCs to the internet (it needs CONFIG_NFT_CONNLIMIT, "+
			"NFT_LIMIT and NFT_HASH)", "error", err)
	}
	return apply(connectionBounds{})
}

func isNotSupported(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EOPNOTSUPP)
}

// probe returns the kernel's error for a table that has nothing but the bounds, in a
// network namespace that is nobody else's.
func (b connectionBounds) probe(namespace int) error {
	conn, err := nftables.New(nftables.WithNetNSFd(namespace))
	if err != nil {
		return fmt.Errorf("nftables: %w", err)
	}
	r := &ruleset{name: "coracle-probe"}
	b.addConnectionRules(r)
	if err := r.replace(conn); err != nil {
		return err
	}
	conn.DelTable(&nftables.Table{Name: r.name, Family: nftables.TableFamilyINet})
	return conn.Flush()
}

// addConnectionRules adds the chain "new-connections", which drops the first packet of a connection that is too many.
func (b connectionBounds) addConnectionRules(r *ruleset) {
	// Registers of four bytes each. A key of two is in two that follow each other, and so is what is hashed.
	const address, part, far = 8, 9, 10
	source, destination := sourceIPv4, destinationIPv4
	source.DestRegister, destination.DestRegister = address, far
	divide := func(register, lists uint32) []expr.Any {
		return []expr.Any{
			&destination,
			&expr.Ct{Key: expr.CtKeyPROTOSRC, Register: far + 1},
			&expr.Ct{Key: expr.CtKeyPROTODST, Register: far + 2},
			&expr.Hash{
				SourceRegister: far,
				DestRegister:   register,
				Length:         12,
				Modulus:        lists,
				Type:           expr.HashTypeJenkins,
			},
		}
	}
	count := func(s *set, register, operation uint32, what expr.Any) []expr.Any {
		s.updated = true
		r.add(s)
		return []expr.Any{
			&expr.Dynset{SrcRegKey: register, SetName: s.name, Operation: operation, Exprs: []expr.Any{what}},
		}
	}
	perSecond := func(rate, burst uint32) *expr.Limit {
		return &expr.Limit{
			Type:  expr.LimitTypePkts,
			Rate:  uint64(rate),
			Unit:  expr.LimitTimeSecond,
			Burst: burst,
			Over:  true,
		}
	}
	tooLong := &expr.Connlimit{Count: b.list, Flags: expr.NFT_CONNLIMIT_F_INV}
	c := r.addChain("new-connections", nil)
	c.addRule(matchIPv4(), []expr.Any{&source}, count(&set{
		name: fmt.Sprintf("rates-%d-%d", b.rateOf, b.most), key: nftables.TypeIPAddr, expires: time.Hour,
	}, address, unix.NFT_DYNSET_OP_UPDATE, perSecond(b.rateOf, b.most)), drop())
	c.addRule(matchIPv4(), []expr.Any{&source}, divide(part, addressLists), count(&set{
		name: fmt.Sprintf(
			"connections-%d",
			b.list,
		), key: nftables.MustConcatSetType(nftables.TypeIPAddr, nftables.TypeMark),
	}, address, unix.NFT_DYNSET_OP_ADD, tooLong), drop())
	c.addRule(matchIPv4(), divide(part, totalLists), count(&set{
		name: fmt.Sprintf("all-connections-%d", b.list), key: nftables.TypeMark,
	}, part, unix.NFT_DYNSET_OP_ADD, tooLong), drop())
	c.addRule([]expr.Any{perSecond(b.rate, b.burst)}, drop())
}

// unconfirmed matches the first packet of a connection: it is not in the connection table before it has passed all
// rules.
func unconfirmed() []expr.Any {
	const confirmed = 1 << 3 // IPS_CONFIRMED of linux/netfilter/nf_conntrack_common.h
	return []expr.Any{
		&expr.Ct{Key: expr.CtKeySTATUS, Register: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: nativeUint32(confirmed), Xor: nativeUint32(0)},
		equals(nativeUint32(0)),
	}
}
