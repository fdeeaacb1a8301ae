//go:build linux

package networkpolicyagent

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"

	mdnetlink "github.com/mdlayher/netlink"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"
)

const (
	// flowGroup is the group of NFLOG to which the rules send packets, and flowBytes how much of each.
	flowGroup = 8162
	flowBytes = 64

	// The protocol of NFLOG: linux/netfilter/nfnetlink_log.h.
	messagePacket    = 0
	messageConfig    = 1
	attributePayload = 9
	attributePrefix  = 10
	configCommand    = 1
	configMode       = 2
	commandBind      = 1
	copyPacket       = 2
)

// flowLog logs the packets that rules send.
type flowLog struct {
	log       *zap.SugaredLogger
	publisher *publisher // nil without CloudWatch Logs
}

// follow logs packets until ctx ends.
func (l flowLog) follow(ctx context.Context) error {
	conn, err := mdnetlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return fmt.Errorf("flow logs: %w", err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if err := configureFlows(conn); err != nil {
		return fmt.Errorf("flow logs: %w", err)
	}
	for {
		messages, err := conn.Receive()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil { // packets were lost: there are more than can be logged
			l.log.Errorf("Failed to read flows: %v", err)
			continue
		}
		for _, m := range messages {
			if m.Header.Type == unix.NFNL_SUBSYS_ULOG<<8|messagePacket && len(m.Data) > 4 {
				l.write(m.Data[4:])
			}
		}
	}
}

// configureFlows asks for the packets of the group.
func configureFlows(conn *mdnetlink.Conn) error {
	mode := binary.BigEndian.AppendUint32(nil, flowBytes)
	for _, attribute := range []mdnetlink.Attribute{
		{Type: configCommand, Data: []byte{commandBind}},
		{Type: configMode, Data: append(mode, copyPacket, 0)},
	} {
		data, err := mdnetlink.MarshalAttributes([]mdnetlink.Attribute{attribute})
		if err != nil {
			return err
		}
		header := binary.BigEndian.AppendUint16([]byte{unix.AF_UNSPEC, unix.NFNETLINK_V0}, flowGroup)
		if _, err := conn.Execute(mdnetlink.Message{
			Header: mdnetlink.Header{Type: unix.NFNL_SUBSYS_ULOG<<8 | messageConfig,
				Flags: mdnetlink.Request | mdnetlink.Acknowledge},
			Data: append(header, data...),
		}); err != nil {
			return err
		}
	}
	return nil
}

// write logs a packet, as upstream does: what is dropped always, what is let through at the level debug.
func (l flowLog) write(attributes []byte) {
	decoder, err := mdnetlink.NewAttributeDecoder(attributes)
	if err != nil {
		return
	}
	var prefix string
	var packet []byte
	for decoder.Next() {
		switch decoder.Type() {
		case attributePrefix:
			prefix = decoder.String()
		case attributePayload:
			packet = decoder.Bytes()
		}
	}
	words := strings.Fields(prefix)
	f, ok := parseFlow(packet)
	if !ok || len(words) != 3 {
		return
	}
	write := l.log.Debugf
	denied := words[1] == "DENY"
	if denied {
		write = l.log.Infof
		dropped.WithLabelValues(words[0]).Inc()
	}
	if l.publisher != nil && (denied || l.log.Level().Enabled(zap.DebugLevel)) {
		l.publisher.publish(f, words[1], words[2])
	}
	write("Flow Info: Src IP: %s Src Port: %d Dest IP: %s Dest Port: %d Proto %s Verdict %s Direction %s, Tier %s",
		f.source, f.sourcePort, f.destination, f.destinationPort, f.protocol, words[1], words[0], words[2])
}

// flow is what the beginning of a packet says.
type flow struct {
	source, destination         netip.Addr
	sourcePort, destinationPort uint16
	protocol                    string
}

func parseFlow(packet []byte) (f flow, ok bool) {
	if len(packet) < 20 {
		return f, false
	}
	var number uint8
	var rest []byte
	switch length := int(packet[0]&0xf) * 4; {
	case packet[0]>>4 == 4 && length >= 20 && len(packet) >= length:
		number, rest = packet[9], packet[length:]
		f.source, f.destination = netip.AddrFrom4([4]byte(packet[12:16])), netip.AddrFrom4([4]byte(packet[16:20]))
	case packet[0]>>4 == 6 && len(packet) >= 40:
		number, rest = packet[6], packet[40:]
		f.source, f.destination = netip.AddrFrom16([16]byte(packet[8:24])), netip.AddrFrom16([16]byte(packet[24:40]))
	default:
		return f, false
	}
	f.protocol = "UNKNOWN"
	for name, n := range protocols {
		if n == number {
			f.protocol = string(name)
		}
	}
	switch {
	case number == unix.IPPROTO_ICMP || number == unix.IPPROTO_ICMPV6:
		f.protocol = "ICMP"
	case f.protocol != "UNKNOWN" && len(rest) >= 4:
		f.sourcePort, f.destinationPort = binary.BigEndian.Uint16(rest), binary.BigEndian.Uint16(rest[2:])
	}
	return f, true
}
