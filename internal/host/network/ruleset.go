//go:build linux

package network

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	mdnetlink "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// ruleset is an nftables table as it is to be. It replaces the one of its name in one transaction: no packet sees half
// of it, and base chains stay hooked throughout.
type ruleset struct {
	name   string
	chains []*chain
	sets   []*set
}

// chain is a chain with its rules; hook is nil for one that others jump to.
type chain struct {
	name  string
	hook  *hook
	rules [][]expr.Any
}

type hook struct {
	kind     nftables.ChainType
	at       *nftables.ChainHook
	priority nftables.ChainPriority
	drop     bool // what no rule has decided about
}

// set is a set, or a map when data has bytes.
type set struct {
	name     string
	key      nftables.SetDatatype
	data     nftables.SetDatatype
	interval bool
	// updated is set for a set that the kernel fills from packets. It outlives a replacement of the table: rules that
	// are written again do not forget what was counted. Its name changes with what is counted.
	updated  bool
	expires  time.Duration // of elements of an updated set that no packet has updated; zero is never
	elements []nftables.SetElement
}

// addChain adds a chain.
func (r *ruleset) addChain(name string, h *hook) *chain {
	c := &chain{name: name, hook: h}
	r.chains = append(r.chains, c)
	return c
}

// add adds a set.
func (r *ruleset) add(s *set) { r.sets = append(r.sets, s) }

// addRule adds a rule: matches, then what follows of them.
func (c *chain) addRule(parts ...[]expr.Any) { c.rules = append(c.rules, slices.Concat(parts...)) }

// digest returns a number that distinguishes rule sets.
func (r *ruleset) digest() uint64 {
	h := fnv.New64a()
	for _, c := range r.chains {
		fmt.Fprintf(h, "chain %s\n", c.name)
		for _, rule := range c.rules {
			for _, e := range rule {
				fmt.Fprintf(h, "%T%+v ", e, e)
			}
			fmt.Fprintln(h)
		}
	}
	for _, s := range r.sets {
		fmt.Fprintf(h, "set %s\n", s.name)
		for _, e := range s.elements {
			fmt.Fprintf(h, "%x %x %v", e.Key, e.Val, e.IntervalEnd)
			if e.VerdictData != nil {
				fmt.Fprintf(h, " %+v", *e.VerdictData)
			}
			fmt.Fprintln(h)
		}
	}
	return h.Sum64()
}

// applied remembers what a namespace has, so that the same is not written again: the digest and the kernel's generation
// after it.
type applied struct {
	mu  sync.Mutex
	has map[string]appliedState
}

type appliedState struct {
	digest     uint64
	generation uint32
}

// updatedElements bounds the elements of an updated set: the public addresses of a data directory, with their parts.
const updatedElements = 1 << 20

// messageElements is the number of elements of a set that fit into one netlink attribute of 64 KiB.
const messageElements = 400

// apply makes the table so in the namespace.
func (r *ruleset) apply(s *os.File, memory *applied) error {
	var stat unix.Stat_t
	if err := unix.Fstat(int(s.Fd()), &stat); err != nil {
		return err
	}
	key := fmt.Sprintf("%d/%s", stat.Ino, r.name)
	digest := r.digest()
	conn, err := nftables.New(nftables.WithNetNSFd(int(s.Fd())),
		nftables.WithSockOptions(func(c *mdnetlink.Conn) error {
			// A transaction is one message, and its answers come at once.
			return c.SetWriteBuffer(16 << 20)
		}, func(c *mdnetlink.Conn) error { return c.SetReadBuffer(16 << 20) }))
	if err != nil {
		return fmt.Errorf("nftables: %w", err)
	}
	now, err := generation(int(s.Fd()))
	if err != nil {
		return err
	}
	memory.mu.Lock()
	same := memory.has[key] == appliedState{digest, now}
	memory.mu.Unlock()
	if same {
		return nil
	}
	if err := r.replace(conn); err != nil {
		return fmt.Errorf("nftables table %s: %w", r.name, err)
	}
	if now, err = generation(int(s.Fd())); err != nil {
		return err
	}
	memory.mu.Lock()
	memory.has[key] = appliedState{digest, now}
	memory.mu.Unlock()
	return nil
}

// generation counts the transactions of a namespace: it says whether anybody has changed its rules.
func generation(fd int) (uint32, error) {
	conn, err := mdnetlink.Dial(unix.NETLINK_NETFILTER, &mdnetlink.Config{NetNS: fd})
	if err != nil {
		return 0, fmt.Errorf("nftables: %w", err)
	}
	defer conn.Close()
	answers, err := conn.Execute(mdnetlink.Message{
		Header: mdnetlink.Header{Type: unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_GETGEN, Flags: mdnetlink.Request},
		Data:   []byte{unix.AF_UNSPEC, unix.NFNETLINK_V0, 0, 0},
	})
	if err != nil {
		return 0, fmt.Errorf("nftables: ask for the generation: %w", err)
	}
	for _, a := range answers {
		attributes, err := mdnetlink.NewAttributeDecoder(a.Data[4:])
		if err != nil {
			return 0, err
		}
		attributes.ByteOrder = binary.BigEndian
		for attributes.Next() {
			if attributes.Type() == unix.NFTA_GEN_ID {
				return attributes.Uint32(), nil
			}
		}
	}
	return 0, errors.New("nftables: the kernel has no generation")
}

func (r *ruleset) replace(conn *nftables.Conn) error {
	table := &nftables.Table{Name: r.name, Family: nftables.TableFamilyINet}
	tables, err := conn.ListTablesOfFamily(nftables.TableFamilyINet)
	if err != nil {
		return err
	}
	exists := slices.ContainsFunc(tables, func(t *nftables.Table) bool { return t.Name == r.name })
	kept := map[string]bool{}
	conn.AddTable(table)
	if exists {
		if kept, err = r.flushTable(conn, table); err != nil {
			return err
		}
	}
	for _, c := range r.chains {
		made := &nftables.Chain{Name: c.name, Table: table}
		if h := c.hook; h != nil {
			policy := nftables.ChainPolicyAccept
			if h.drop {
				policy = nftables.ChainPolicyDrop
			}
			made.Type, made.Hooknum, made.Priority, made.Policy = h.kind, h.at, &h.priority, &policy
		}
		conn.AddChain(made)
	}
	ids := map[string]uint32{}
	for i, s := range r.sets {
		if kept[s.name] {
			continue
		}
		made := &nftables.Set{Table: table, ID: uint32(i + 1), Name: s.name, KeyType: s.key, Interval: s.interval}
		if s.updated {
			made.Dynamic, made.Size, made.HasTimeout, made.Timeout = true, updatedElements, s.expires > 0, s.expires
		}
		if s.data.Bytes > 0 || s.data.Name != "" {
			made.IsMap, made.DataType = true, s.data
		}
		ids[s.name] = made.ID
		if err := conn.AddSet(made, nil); err != nil {
			return err
		}
		for part := range slices.Chunk(s.elements, messageElements) {
			if err := conn.SetAddElements(made, part); err != nil {
				return err
			}
		}
	}
	for _, c := range r.chains {
		for _, rule := range c.rules {
			for _, e := range rule {
				switch e := e.(type) {
				case *expr.Lookup:
					e.SetID = ids[e.SetName]
				case *expr.Dynset:
					e.SetID = ids[e.SetName]
				}
			}
			conn.AddRule(&nftables.Rule{Table: table, Chain: &nftables.Chain{Name: c.name, Table: table}, Exprs: rule})
		}
	}
	return conn.Flush()
}

// flushTable empties an existing table as part of the transaction. Base chains that are wanted stay, and so do updated
// sets, which it returns.
func (r *ruleset) flushTable(conn *nftables.Conn, table *nftables.Table) (kept map[string]bool, err error) {
	chains, err := conn.ListChainsOfTableFamily(nftables.TableFamilyINet)
	if err != nil {
		return nil, err
	}
	sets, err := conn.GetSets(table)
	if err != nil {
		return nil, err
	}
	conn.FlushTable(table)
	kept = map[string]bool{}
	for _, s := range sets {
		if slices.ContainsFunc(r.sets, func(wanted *set) bool { return wanted.updated && wanted.name == s.Name }) {
			kept[s.Name] = true
			continue
		}
		if !s.Anonymous {
			conn.DelSet(s)
		}
	}
	wanted := map[string]*hook{}
	for _, c := range r.chains {
		wanted[c.name] = c.hook
	}
	for _, c := range chains {
		if c.Table.Name != r.name {
			continue
		}
		if h := wanted[c.Name]; c.Hooknum != nil && h != nil && *c.Hooknum == *h.at && c.Type == h.kind {
			continue
		}
		conn.DelChain(&nftables.Chain{Name: c.Name, Table: table})
	}
	return kept, nil
}

// What follows are matches and verdicts. A match loads into register 1 and compares.

func loadMeta(key expr.MetaKey) expr.Any { return &expr.Meta{Key: key, Register: 1} }

func equals(data []byte) expr.Any {
	return &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: data}
}

func differs(data []byte) expr.Any {
	return &expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: data}
}

// linkName returns a link's name as the kernel compares it.
func linkName(name string) []byte {
	return append([]byte(name), make([]byte, unix.IFNAMSIZ-len(name))...)
}

func matchInputLink(link string) []expr.Any {
	return []expr.Any{loadMeta(expr.MetaKeyIIFNAME), equals(linkName(link))}
}

func matchOutputLink(link string) []expr.Any {
	return []expr.Any{loadMeta(expr.MetaKeyOIFNAME), equals(linkName(link))}
}

func nativeUint32(n uint32) []byte { return binaryutil.NativeEndian.PutUint32(n) }

// matchSet returns an expression that looks register 1 up in a set.
func matchSet(name string) expr.Any { return &expr.Lookup{SourceRegister: 1, SetName: name} }

// matchNotSet returns the opposite of in.
func matchNotSet(name string) expr.Any {
	return &expr.Lookup{SourceRegister: 1, SetName: name, Invert: true}
}

// dispatch goes where a verdict map says for register 1.
func dispatch(name string) expr.Any {
	return &expr.Lookup{SourceRegister: 1, DestRegister: 0, IsDestRegSet: true, SetName: name}
}

// translate replaces register 1 by what a map has for it.
func translate(name string) expr.Any {
	return &expr.Lookup{SourceRegister: 1, DestRegister: 1, IsDestRegSet: true, SetName: name}
}

func matchIPv4() []expr.Any {
	return []expr.Any{loadMeta(expr.MetaKeyNFPROTO), equals([]byte{unix.NFPROTO_IPV4})}
}

func matchIPv6() []expr.Any {
	return []expr.Any{loadMeta(expr.MetaKeyNFPROTO), equals([]byte{unix.NFPROTO_IPV6})}
}

func protocolIs(number byte) []expr.Any {
	return []expr.Any{loadMeta(expr.MetaKeyL4PROTO), equals([]byte{number})}
}

// Fields of the headers.
var (
	sourceIPv4      = expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 12, Len: 4}
	destinationIPv4 = expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 16, Len: 4}
	sourceIPv6      = expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 8, Len: 16}
	destinationIPv6 = expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 24, Len: 16}
	destinationPort = expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2}
	icmpType        = expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 0, Len: 1}
	icmpCode        = expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 1, Len: 1}
)

func loadPayload(p expr.Payload) expr.Any { return &p }

// addressIn matches packets whose source or destination is in a block.
func addressIn(source bool, block netip.Prefix) []expr.Any {
	match, field := matchIPv4(), destinationIPv4
	switch {
	case block.Addr().Is4() && source:
		field = sourceIPv4
	case block.Addr().Is6():
		match, field = matchIPv6(), destinationIPv6
		if source {
			field = sourceIPv6
		}
	}
	if block.Bits() == 0 {
		return match
	}
	match = append(match, loadPayload(field))
	if !block.IsSingleIP() {
		n := toIPNet(block)
		match = append(match, &expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: field.Len, Mask: n.Mask,
			Xor: make([]byte, field.Len)})
	}
	return append(match, equals(block.Masked().Addr().AsSlice()))
}

// addressInSet matches packets whose source or destination is in a set of addresses.
func addressInSet(source, six bool, name string) []expr.Any {
	switch {
	case six && source:
		return append(matchIPv6(), loadPayload(sourceIPv6), matchSet(name))
	case six:
		return append(matchIPv6(), loadPayload(destinationIPv6), matchSet(name))
	case source:
		return append(matchIPv4(), loadPayload(sourceIPv4), matchSet(name))
	}
	return append(matchIPv4(), loadPayload(destinationIPv4), matchSet(name))
}

func portBytes(n int32) []byte { return binaryutil.BigEndian.PutUint16(uint16(n)) }

// portsIn matches destination ports.
func portsIn(first, last int32) []expr.Any {
	switch {
	case first <= 0 && last >= 65535:
		return nil
	case first == last:
		return []expr.Any{loadPayload(destinationPort), equals(portBytes(first))}
	}
	return []expr.Any{loadPayload(destinationPort), &expr.Range{Op: expr.CmpOpEq, Register: 1,
		FromData: portBytes(first),
		ToData:   portBytes(last)}}
}

// matchICMP matches an ICMP type and code; -1 is any.
func matchICMP(kind, code int32) (match []expr.Any) {
	if kind >= 0 {
		match = append(match, loadPayload(icmpType), equals([]byte{byte(kind)}))
		if code >= 0 {
			match = append(match, loadPayload(icmpCode), equals([]byte{byte(code)}))
		}
	}
	return match
}

// stateIs matches the state of the connection: bits of expr.CtStateBit….
func stateIs(bits uint32) []expr.Any {
	return []expr.Any{
		&expr.Ct{Key: expr.CtKeySTATE, Register: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: nativeUint32(bits), Xor: nativeUint32(0)},
		differs(nativeUint32(0)),
	}
}

// unrouted matches packets whose source is not routed to the port that they come from.
func unrouted() []expr.Any {
	return []expr.Any{&expr.Fib{Register: 1, ResultOIF: true, FlagSADDR: true, FlagIIF: true}, equals(nativeUint32(0))}
}

func accept() []expr.Any         { return verdict(expr.VerdictAccept, "") }
func drop() []expr.Any           { return verdict(expr.VerdictDrop, "") }
func returnToCaller() []expr.Any { return verdict(expr.VerdictReturn, "") }

func jumpToChain(chain string) []expr.Any { return verdict(expr.VerdictJump, chain) }
func goToChain(chain string) []expr.Any   { return verdict(expr.VerdictGoto, chain) }

func verdict(kind expr.VerdictKind, chain string) []expr.Any {
	return []expr.Any{&expr.Verdict{Kind: kind, Chain: chain}}
}

// jumpElement returns an element of a verdict map that leads to a chain.
func jumpElement(key []byte, chain string) nftables.SetElement {
	return nftables.SetElement{Key: key, VerdictData: &expr.Verdict{Kind: expr.VerdictJump, Chain: chain}}
}

// addressSet returns a set of IPv4 or IPv6 blocks; blocks of the other family are left out. Single addresses make a
// hash, others an interval set.
func addressSet(name string, six bool, blocks []netip.Prefix) *set {
	s := &set{name: name, key: nftables.TypeIPAddr}
	if six {
		s.key = nftables.TypeIP6Addr
	}
	type span struct{ first, last netip.Addr }
	var spans []span
	for _, b := range blocks {
		if b.Addr().Is6() != six {
			continue
		}
		spans = append(spans, span{b.Masked().Addr(), lastAddress(b)})
		s.interval = s.interval || !b.IsSingleIP()
	}
	slices.SortFunc(spans, func(a, b span) int { return bytes.Compare(a.first.AsSlice(), b.first.AsSlice()) })
	var merged []span
	for _, x := range spans {
		if n := len(merged); n > 0 && (x.first.Compare(merged[n-1].last) <= 0 || s.interval &&
			x.first == merged[n-1].last.Next()) {
			if merged[n-1].last.Less(x.last) {
				merged[n-1].last = x.last
			}
			continue
		}
		merged = append(merged, x)
	}
	for _, x := range merged {
		s.elements = append(s.elements, nftables.SetElement{Key: x.first.AsSlice()})
		if s.interval {
			if after := x.last.Next(); after.IsValid() {
				s.elements = append(s.elements, nftables.SetElement{Key: after.AsSlice(), IntervalEnd: true})
			}
		}
	}
	return s
}

// lastAddress returns the last address of a block.
func lastAddress(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 1 << (7 - i%8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}
