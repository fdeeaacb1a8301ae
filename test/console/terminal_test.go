package console

import (
	"fmt"
	"testing"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/coracle-eks/coracle/test/harness"
	"github.com/coracle-eks/coracle/test/harness/browser"
	"github.com/coracle-eks/coracle/test/harness/clustertest"
)

// TestTerminal opens a terminal of a pod that no node runs: the page says why there is no shell, and the keyboard gets
// out of the terminal.
func TestTerminal(t *testing.T) {
	t.Parallel()
	chromium, d := browser.Start(t), harness.Start(t)
	d.CreateCluster("web", "1.35", d.ClusterRole(), d.Subnets())
	d.AwaitStatus("web", ekstypes.ClusterStatusActive)
	config := d.Login("web")
	d.Run(config, "kubectl", "run", "idle", "--image=busybox", "--overrides",
		`{"spec":{"containers":[{"name":"idle","image":"busybox"},{"name":"sidecar","image":"busybox"}]}}`)

	tab := browser.Open(t, chromium, d.Endpoint, 1280, 900)
	tab.Expect("WebSocket connection to")
	tab.Expect("400 (Bad Request)") // the request that learns why
	tab.Go(link(t, d))
	tab.See("Health issues")
	tab.Go("/console/cluster-objects/web?version=v1&resource=pods&namespace=default&name=idle")
	tab.Click("Terminal")
	tab.Click("Connect")
	tab.See("Run sh in container idle failed")
	tab.See("pod idle does not have a host assigned")
	focused := `document.activeElement.matches(".xterm-helper-textarea")`
	browser.Evaluate[any](tab, `document.querySelector(".xterm-helper-textarea").focus()`)
	tab.Do("press Tab", chromedp.KeyEvent(kb.Tab))
	tab.Until("see that Tab stays in the terminal", focused)
	tab.Do("press Escape and Tab", chromedp.KeyEvent(kb.Escape), chromedp.KeyEvent(kb.Tab))
	tab.Until("see that Escape and Tab leave it", "!"+focused)
	eachLook(tab, "terminal")
}

// TestShell runs a shell in a container: its colors, its size, its exit status, and another one. No other test changes
// the network meanwhile: it is not parallel.
func TestShell(t *testing.T) {
	s := clustertest.New(t, "web", "1.35")
	node := s.AwaitNodes(s.RunInstances(1, s.AL2023("1.35"), s.SubnetIDs[0], s.NodeConfig())...)[0]
	s.Apply(fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: shell}
spec:
  nodeName: %s
  terminationGracePeriodSeconds: 1
  containers:
  - {name: main, image: "%s", args: [pause]}
`, node.Metadata.Name, harness.Agnhost))
	s.Await("condition=Ready", "pod/shell")

	tab := browser.Open(t, browser.Start(t), s.Daemon.Endpoint, 1280, 900)
	tab.Go(link(t, s.Daemon))
	tab.See("Health issues")
	tab.Go("/console/cluster-objects/web?version=v1&resource=pods&namespace=default&name=shell")
	tab.Click("Terminal")
	prints := func(text string) {
		tab.Until("read "+text, fmt.Sprintf(`document.querySelector(".xterm-accessibility")?.innerText.includes(%q)`, text))
	}
	enter := func(command string) {
		browser.Evaluate[any](tab, `document.querySelector(".xterm-helper-textarea").focus()`)
		tab.Do("enter "+command, chromedp.KeyEvent(command+"\r"))
	}
	connect := func(button string) {
		tab.Click(button)
		tab.See("Connected to container main")
		prints("/ #")
	}
	connect("Connect")
	enter(`printf '\033[31mred \033[38;2;200;100;0mbrown\033[0m %s\n' $((40+2))`)
	prints("red brown 42")
	tab.Until("see that both words have a color", `["red", "brown"].every((word) => {
		const at = [...document.querySelectorAll(".xterm-rows span")].find((e) => e.textContent.trim() === word);
		return at && getComputedStyle(at).color !== getComputedStyle(document.querySelector(".pod-terminal")).color;
	})`)
	eachLook(tab, "shell")
	tab.Resize(1920, 1080)
	enter("echo columns=$(stty size | cut -d' ' -f2)")
	tab.Until("see that the shell knows the size", `(() => {
		const columns = /columns=(\d+)/.exec(document.querySelector(".xterm-accessibility").innerText)?.[1];
		return columns > 120;
	})()`)
	enter("exit 3")
	tab.See("sh ended with exit status 3")
	connect("Reconnect")
	tab.Click("YAML")
	tab.Click("Terminal") // which has not ended
	enter("exit")
	tab.See("sh ended with exit status 0")
}
