//go:build linux

package networkpolicyagent

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	mdnetlink "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/networkpolicy"
)

// tableName is that of the agent's table.
const tableName = "aws-network-policy"

// Priorities of the chains. Upstream's programs see what a pod sends before kube-proxy translates its destination, and
// what it receives after the translation of its source.
var (
	beforeTranslation = nftables.ChainPriorityMangle
	afterTranslation  = nftables.ChainPriorityConntrackHelper
)

// Kernel is the node's network namespace.
type kernel struct{ flows uint16 } // the group of flow logs

// bufferSize is for the whole transaction, and for its answers.
const bufferSize = 16 << 20

func connect() (*nftables.Conn, error) {
	conn, err := nftables.New(
		nftables.WithSockOptions(func(c *mdnetlink.Conn) error { return c.SetWriteBuffer(bufferSize) },
			func(c *mdnetlink.Conn) error { return c.SetReadBuffer(bufferSize) }))
	if err != nil {
		return nil, fmt.Errorf("nftables: %w", err)
	}
	return conn, nil
}

// remove deletes the tables that an agent has left.
func (kernel) remove() error {
	conn, err := connect()
	if err != nil {
		return err
	}
	for _, family := range []nftables.TableFamily{nftables.TableFamilyIPv4, nftables.TableFamilyIPv6} {
		table := &nftables.Table{Name: tableName, Family: family}
		conn.AddTable(table) // so that there is one to delete
		conn.DelTable(table)
	}
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("delete nftables table %s: %w", tableName, err)
	}
	return nil
}

// replace makes the table what the rules say, in one transaction: no packet sees half of it.
func (k kernel) replace(r *ruleset) error {
	conn, err := connect()
	if err != nil {
		return err
	}
	w := &writer{conn: conn, flows: k.flows, rules: r,
		table: &nftables.Table{Name: tableName, Family: nftables.TableFamilyIPv4}}
	if r.node.Is6() {
		w.table.Family = nftables.TableFamilyIPv6
	}
	if err := w.write(); err != nil {
		return fmt.Errorf("nftables table %s: %w", tableName, err)
	}
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("nftables table %s: %w", tableName, err)
	}
	return nil
}

// writer puts a table into a transaction.
type writer struct {
	conn  *nftables.Conn
	table *nftables.Table
	rules *ruleset
	flows uint16
	sets  uint32 // number of them
}

func (w *writer) write() error {
	w.conn.AddTable(w.table)
	w.conn.DelTable(w.table)
	w.conn.AddTable(w.table)
	for _, name := range slices.Sorted(maps.Keys(w.rules.chains)) {
		if err := w.writeChain(name, w.rules.chains[name]); err != nil {
			return err
		}
	}
	if err := w.writeBase("egress", nftables.ChainHookPrerouting, beforeTranslation, destination(w.six()),
		expr.MetaKeyIIFNAME, w.rules.egress); err != nil {
		return err
	}
	return w.writeBase("ingress", nftables.ChainHookPostrouting, afterTranslation, source(w.six()),
		expr.MetaKeyOIFNAME, w.rules.ingress)
}

func (w *writer) six() bool { return w.rules.node.Is6() }

// writeBase adds a base chain that leads from the interfaces of pods to their chains. What is known of a connection is
// decided when it begins. The node may always reach its pods, and they the node, as upstream has it.
func (w *writer) writeBase(name string, hook *nftables.ChainHook, priority *nftables.ChainPriority,
	other *expr.Payload, link expr.MetaKey, links map[string]string) error {
	set := w.newSet(nftables.TypeIFName, false)
	set.IsMap, set.DataType = true, nftables.TypeVerdict
	var elements []nftables.SetElement
	for _, l := range slices.Sorted(maps.Keys(links)) {
		elements = append(elements, nftables.SetElement{Key: linkName(l),
			VerdictData: &expr.Verdict{Kind: expr.VerdictGoto, Chain: links[l]}})
	}
	if err := w.addSet(set, elements); err != nil {
		return err
	}
	policy := nftables.ChainPolicyAccept
	w.conn.AddChain(&nftables.Chain{Name: name, Table: w.table, Type: nftables.ChainTypeFilter, Hooknum: hook,
		Priority: priority, Policy: &policy})
	known := expr.CtStateBitESTABLISHED | expr.CtStateBitRELATED
	w.addRule(name, []expr.Any{&expr.Ct{Key: expr.CtKeySTATE, Register: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: binaryutil.NativeEndian.PutUint32(known),
			Xor: make([]byte, 4)},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: make([]byte, 4)}, accept()})
	if w.six() { // neighbor discovery among it
		w.addRule(name, protocolIs(unix.IPPROTO_ICMPV6), []expr.Any{accept()})
	}
	w.addRule(name, []expr.Any{other, equals(w.rules.node.AsSlice()), accept()})
	w.addRule(name, []expr.Any{&expr.Meta{Key: link, Register: 1},
		&expr.Lookup{SourceRegister: 1, DestRegister: 0, IsDestRegSet: true, SetName: set.Name, SetID: set.ID}})
	return nil
}

// writeChain adds the chain of pods with the same policies.
func (w *writer) writeChain(name string, d direction) error {
	w.conn.AddChain(&nftables.Chain{Name: name, Table: w.table})
	kind := "ingress"
	other := source(w.six())
	if name[:len("egress")] == "egress" {
		kind, other = "egress", destination(w.six())
	}
	if err := w.writeTier(name, "-admin", d.admin, other, kind, "ADMIN"); err != nil {
		return err
	}
	for _, r := range d.allow {
		if err := w.addRules(name, other, r, append(w.logFlow(kind, "ACCEPT", "NETWORK_POLICY"), accept())); err != nil {
			return err
		}
	}
	if err := w.writeTier(name, "-baseline", d.baseline, other, kind, "BASELINE"); err != nil {
		return err
	}
	switch {
	case d.isolated:
		w.addRule(name, w.logFlow(kind, "DENY", "NETWORK_POLICY"), drop())
	case d.deny:
		w.addRule(name, w.logFlow(kind, "DENY", "DEFAULT"), drop())
	}
	return nil // the base chain accepts what is left
}

// writeTier adds the rules of ClusterNetworkPolicies of a tier, in a chain that the chain of the pods jumps to: what
// passes comes back.
func (w *writer) writeTier(name, suffix string, rules []clusterRule, other *expr.Payload, kind, tier string) error {
	if len(rules) == 0 {
		return nil
	}
	w.conn.AddChain(&nftables.Chain{Name: name + suffix, Table: w.table})
	for _, r := range rules {
		verdict := []expr.Any{&expr.Verdict{Kind: expr.VerdictReturn}}
		switch r.action {
		case networkpolicy.Accept:
			verdict = append(w.logFlow(kind, "ACCEPT", tier), accept())
		case networkpolicy.Deny:
			verdict = append(w.logFlow(kind, "DENY", tier), drop()...)
		}
		if err := w.addRules(name+suffix, other, r.rule, verdict); err != nil {
			return err
		}
	}
	w.addRule(name, []expr.Any{&expr.Verdict{Kind: expr.VerdictJump, Chain: name + suffix}})
	return nil
}

// addRules adds rules of the kernel for one of ours: one for each range of ports.
func (w *writer) addRules(chain string, other *expr.Payload, r rule, verdict []expr.Any) error {
	match, err := w.matchAddresses(other, r.addresses)
	if err != nil {
		return err
	}
	if r.protocol != 0 {
		match = append(match, protocolIs(r.protocol)...)
	}
	if len(r.ports) == 0 {
		w.addRule(chain, match, verdict)
	}
	for _, p := range r.ports {
		w.addRule(chain, match, matchPorts(p), verdict)
	}
	return nil
}

// logFlow sends the beginning of a packet to the agent.
func (w *writer) logFlow(kind, verdict, tier string) []expr.Any {
	if !w.rules.logFlows {
		return nil
	}
	return []expr.Any{&expr.Log{Key: 1<<unix.NFTA_LOG_GROUP | 1<<unix.NFTA_LOG_PREFIX | 1<<unix.NFTA_LOG_SNAPLEN,
		Group: w.flows, Snaplen: flowBytes, Data: []byte(kind + " " + verdict + " " + tier)}}
}

func (w *writer) addRule(chain string, parts ...[]expr.Any) {
	w.conn.AddRule(&nftables.Rule{Table: w.table, Chain: &nftables.Chain{Name: chain, Table: w.table},
		Exprs: slices.Concat(parts...)})
}

func (w *writer) newSet(key nftables.SetDatatype, interval bool) *nftables.Set {
	w.sets++
	return &nftables.Set{Table: w.table, ID: w.sets, Name: fmt.Sprintf("set-%d", w.sets), KeyType: key,
		Interval: interval}
}

// messageElements is the number of elements that fit into one netlink attribute of 64 KiB.
const messageElements = 400

func (w *writer) addSet(s *nftables.Set, elements []nftables.SetElement) error {
	if err := w.conn.AddSet(s, nil); err != nil {
		return err
	}
	for part := range slices.Chunk(elements, messageElements) {
		if err := w.conn.SetAddElements(s, part); err != nil {
			return err
		}
	}
	return nil
}

// matchAddresses matches packets whose other end is in the spans.
func (w *writer) matchAddresses(other *expr.Payload, spans []span) ([]expr.Any, error) {
	if isAll(spans) {
		return nil, nil
	}
	if len(spans) == 1 && spans[0].first == spans[0].last {
		return []expr.Any{other, equals(spans[0].first.AsSlice())}, nil
	}
	key := nftables.TypeIPAddr
	if w.six() {
		key = nftables.TypeIP6Addr
	}
	interval := slices.ContainsFunc(spans, func(s span) bool { return s.first != s.last })
	var elements []nftables.SetElement
	for _, s := range spans {
		elements = append(elements, nftables.SetElement{Key: s.first.AsSlice()})
		if after := s.last.Next(); interval && after.IsValid() {
			elements = append(elements, nftables.SetElement{Key: after.AsSlice(), IntervalEnd: true})
		}
	}
	set := w.newSet(key, interval)
	return []expr.Any{other, &expr.Lookup{SourceRegister: 1, SetName: set.Name, SetID: set.ID}},
		w.addSet(set, elements)
}

func matchPorts(p portSpan) []expr.Any {
	load := &expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2}
	first, last := binaryutil.BigEndian.PutUint16(p.first), binaryutil.BigEndian.PutUint16(p.last)
	if bytes.Equal(first, last) {
		return []expr.Any{load, equals(first)}
	}
	return []expr.Any{load, &expr.Range{Op: expr.CmpOpEq, Register: 1, FromData: first, ToData: last}}
}

func protocolIs(number uint8) []expr.Any {
	return []expr.Any{&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1}, equals([]byte{number})}
}

func equals(data []byte) expr.Any { return &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: data} }

func drop() []expr.Any { return []expr.Any{&expr.Verdict{Kind: expr.VerdictDrop}} }

func accept() expr.Any { return &expr.Verdict{Kind: expr.VerdictAccept} }

// source and destination load the address of a packet's end.
func source(six bool) *expr.Payload {
	if six {
		return &expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 8, Len: 16}
	}
	return &expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 12, Len: 4}
}

func destination(six bool) *expr.Payload {
	if six {
		return &expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 24, Len: 16}
	}
	return &expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 16, Len: 4}
}

// linkName returns a link's name as the kernel compares it.
func linkName(name string) []byte {
	return append([]byte(name), make([]byte, unix.IFNAMSIZ-len(name))...)
}
