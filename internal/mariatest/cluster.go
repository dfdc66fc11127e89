package mariatest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// ErrNoGalera says that MariaDB's library for clusters is not there.
var ErrNoGalera = errors.New("mariatest: no libgalera_smm.so found: apt-get install --no-install-recommends galera-4 rsync")

// Nodes are how many a cluster has.
const Nodes = 3

// A node's own address is one of 127.0.0.0/8, so that its ports can be the usual ones: no client's connection gets them.
const sqlPort, groupPort, stateStream, statePort = "3306", "4567", "4568", "4444"

// joinsWithin is how long a node may take until it has what the others have.
const joinsWithin = 3 * time.Minute

// Cluster is a Galera cluster on this machine. It ends with the test, or with the process.
type Cluster struct {
	Nodes     [Nodes]*Node
	directory string
	owner     *syscall.Credential
	daemon    string // the program, and the library that it loads
	library   string
}

// Node is a server of a cluster.
type Node struct {
	cluster *Cluster
	name    string
	ip      string
	process *os.Process // nil: it is down
	ended   <-chan struct{}
}

// NewCluster starts a cluster of three nodes. Without MariaDB or Galera the test is skipped.
func NewCluster(t testing.TB) *Cluster {
	t.Helper()
	c, err := newCluster()
	if errors.Is(err, ErrNotInstalled) || errors.Is(err, ErrNoGalera) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.KillAll()
		if t.Failed() {
			for _, n := range c.Nodes {
				t.Logf("%s:\n%s", n.name, n.log(4<<10))
			}
		}
		if err := os.RemoveAll(c.directory); err != nil {
			t.Error(err)
		}
	})
	c.Recover(t)
	return c
}

// newCluster makes three nodes that are down, each with a copy of one data directory.
func newCluster() (*Cluster, error) {
	daemon, err := daemonPath()
	if err != nil {
		return nil, ErrNotInstalled
	}
	library, err := galera()
	if err != nil {
		return nil, err
	}
	directory, err := os.MkdirTemp(memory(), "idem-mariatest-")
	if err != nil {
		return nil, err
	}
	owner, err := account(directory)
	if err != nil {
		return nil, err
	}
	go removeBehind(directory)
	c := &Cluster{directory: directory, owner: owner, daemon: daemon, library: library}
	subnet, err := freeSubnet()
	if err != nil {
		return nil, err
	}
	for n := range c.Nodes {
		c.Nodes[n] = &Node{cluster: c, name: "node" + strconv.Itoa(n+1), ip: subnet + strconv.Itoa(n+1)}
	}
	return c, c.fill()
}

// fill makes the data directories. The first node begins alone and ends: all have a copy of what it leaves, so that none
// needs the files of another.
func (c *Cluster) fill() error {
	for _, n := range c.Nodes { // a server that starts empties it
		if _, err := c.run("", "mkdir", n.file("tmp")); err != nil {
			return err
		}
	}
	first := c.Nodes[0]
	if err := install(first.data(), c.owner); err != nil {
		return err
	}
	const account = "FLUSH PRIVILEGES;\nCREATE USER idem@'127.%' IDENTIFIED BY 'idem';\nGRANT ALL ON *.* TO idem@'127.%';\n"
	if _, err := c.run(account, c.daemon, "--no-defaults", "--datadir="+first.data(), "--bootstrap"); err != nil {
		return err
	}
	if err := first.launch("--wsrep-new-cluster"); err != nil {
		return err
	}
	if err := first.joined(1); err != nil {
		return err
	}
	first.signal(syscall.SIGTERM)
	<-first.ended
	for _, n := range c.Nodes[1:] {
		if _, err := c.run("", "cp", "-r", first.data(), n.data()); err != nil {
			return err
		}
	}
	return nil
}

// run runs a program as the owner of the nodes, with a limit for its memory, and returns what it prints.
func (c *Cluster) run(input, program string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), joinsWithin)
	defer cancel()
	command := exec.CommandContext(ctx, "sh", append([]string{"-c", limited, program}, args...)...)
	command.Stdin = strings.NewReader(input)
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Credential: c.owner}
	runtime.LockOSThread() // as in launch
	defer runtime.UnlockOSThread()
	output, err := command.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("mariatest: %s %q: %w: %s", program, args, err, output)
	}
	return string(output), nil
}

// limited is a script that runs a program with a limit for its memory: "mariadbd --wsrep-recover" was seen to take 22 GB.
const limited = `ulimit -v 4000000; exec "$0" "$@"`

// Recover starts the nodes, all of which are down: first the one that has the most, without which nothing may begin.
func (c *Cluster) Recover(t testing.TB) {
	t.Helper()
	furthest := slices.MaxFunc(c.Nodes[:], func(a, b *Node) int { return a.position(t) - b.position(t) })
	grant := strings.NewReplacer("safe_to_bootstrap: 0", "safe_to_bootstrap: 1").Replace
	state := filepath.Join(furthest.data(), "grastate.dat")
	saved, err := os.ReadFile(state)
	if err == nil {
		err = os.WriteFile(state, []byte(grant(string(saved))), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	furthest.start(t, "--wsrep-new-cluster")
	if err := furthest.joined(1); err != nil {
		t.Fatal(err)
	}
	for _, n := range c.Nodes {
		if n != furthest {
			n.start(t)
		}
	}
	c.Whole(t)
}

// Whole waits until each node sees all others, has what they have, and serves. A node that has ended meanwhile is started
// again, as a supervisor would: one whose donor is lost ends itself.
func (c *Cluster) Whole(t testing.TB) {
	t.Helper()
	for ended := 0; ; ended++ {
		var err error
		for _, n := range c.Nodes {
			if err = n.joined(Nodes); err == nil {
				continue
			}
			if !errors.Is(err, errEnded) || ended == Nodes {
				t.Fatal(err)
			}
			t.Logf("%s has ended, and is started again", n.name)
			n.Kill()
			n.start(t)
			break
		}
		if err == nil {
			return
		}
	}
}

var errEnded = errors.New("mariatest: a node has ended")

// KillAll ends all nodes at once, as a power cut does.
func (c *Cluster) KillAll() {
	for _, n := range c.Nodes {
		n.signal(syscall.SIGKILL)
	}
	for _, n := range c.Nodes {
		n.Kill()
	}
}

// Address is the node's DSN for go-sql-driver, without a database.
func (n *Node) Address() string { return "idem:idem@tcp(" + n.ip + ":" + sqlPort + ")/" }

// Kill ends the node at once, with all that it has started.
func (n *Node) Kill() {
	if n.process == nil {
		return
	}
	_ = syscall.Kill(-n.process.Pid, syscall.SIGKILL)
	<-n.ended
	n.process = nil
}

// Stop stops the node where it stands, Continue lets it go on. Its connections stay open.
func (n *Node) Stop() { n.signal(syscall.SIGSTOP) }

// Continue is the end of Stop.
func (n *Node) Continue() { n.signal(syscall.SIGCONT) }

func (n *Node) signal(s syscall.Signal) {
	if n.process != nil {
		_ = n.process.Signal(s)
	}
}

// Isolate cuts the node off from the others, or ends that. Clients reach it all the time.
func (n *Node) Isolate(t testing.TB, cut bool) {
	t.Helper()
	value := map[bool]string{true: "1", false: "0"}[cut]
	if _, err := n.query("SET GLOBAL wsrep_provider_options = 'gmcast.isolate=" + value + "'"); err != nil {
		t.Error(err)
	}
}

// Restart starts a node that was killed, and waits until the cluster is whole.
func (n *Node) Restart(t testing.TB) {
	t.Helper()
	n.start(t)
	n.cluster.Whole(t)
}

// Exec runs a statement on the node.
func (n *Node) Exec(t testing.TB, statement string) {
	t.Helper()
	if _, err := n.query(statement); err != nil {
		t.Fatal(err)
	}
}

// start starts the node's server at the position that it has reached.
func (n *Node) start(t testing.TB, more ...string) {
	t.Helper()
	if err := n.launch(append(more, "--wsrep-start-position="+n.recovered(t))...); err != nil {
		t.Fatal(err)
	}
}

// launch starts the node's server.
func (n *Node) launch(more ...string) error {
	command := exec.Command("sh", append([]string{"-c", limited, n.cluster.daemon}, n.settings("err", more...)...)...)
	ended, err := launch(command, n.cluster.owner)
	n.process, n.ended = command.Process, ended
	return err
}

func (n *Node) settings(log string, more ...string) []string {
	peers := make([]string, Nodes)
	for i, other := range n.cluster.Nodes {
		peers[i] = other.ip + ":" + groupPort
	}
	return append([]string{
		"--no-defaults", "--datadir=" + n.data(), "--tmpdir=" + n.file("tmp"), "--log-error=" + n.file(log),
		"--socket=" + n.file("s"),
		"--pid-file=" + n.file("pid"), "--bind-address=" + n.ip, "--port=" + sqlPort, "--skip-name-resolve",
		"--performance-schema=OFF", "--innodb-buffer-pool-size=32M", "--innodb-log-file-size=16M", "--max-connections=200",
		"--idle-transaction-timeout=120", "--binlog-format=ROW", "--innodb-autoinc-lock-mode=2",
		"--wsrep-on=ON", "--wsrep-provider=" + n.cluster.library, "--wsrep-slave-threads=2",
		"--wsrep-cluster-name=" + filepath.Base(n.cluster.directory),
		"--wsrep-cluster-address=gcomm://" + strings.Join(peers, ","),
		"--wsrep-node-name=" + n.name, "--wsrep-node-address=" + n.ip,
		"--wsrep-sst-method=rsync", "--wsrep-sst-receive-address=" + n.ip + ":" + statePort,
		"--wsrep-provider-options=gmcast.listen_addr=tcp://" + n.ip + ":" + groupPort + ";ist.recv_addr=" + n.ip + ":" +
			stateStream + ";gcache.size=64M;gcache.recover=yes",
	}, more...)
}

// joined waits until the node has what the others have, sees so many nodes, and serves.
func (n *Node) joined(nodes int) error {
	wanted := fmt.Sprintf("%d,Primary,Synced,ON", nodes)
	const asked = "SELECT GROUP_CONCAT(variable_value ORDER BY variable_name) FROM information_schema.global_status " +
		"WHERE variable_name IN ('wsrep_cluster_size', 'wsrep_cluster_status', 'wsrep_local_state_comment', 'wsrep_ready')"
	for deadline := time.Now().Add(joinsWithin); ; time.Sleep(100 * time.Millisecond) {
		found, err := n.query(asked)
		if err == nil && strings.TrimSpace(found) == wanted {
			return nil
		}
		select {
		case <-n.ended:
			return fmt.Errorf("%w: %s: %s", errEnded, n.name, n.log(16<<10))
		default:
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("mariatest: %s is %q after %s (%w): %s", n.name, found, joinsWithin, err, n.log(16<<10))
		}
	}
}

var recoveredPosition = regexp.MustCompile(`Recovered position: (\S+):(-?\d+)`)

// recovered is the node's position, from its files, as the history's id and a number.
func (n *Node) recovered(t testing.TB) string {
	t.Helper()
	if _, err := n.cluster.run("", n.cluster.daemon, n.settings("recover", "--wsrep-recover")...); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(n.file("recover"))
	all := recoveredPosition.FindAllStringSubmatch(string(text), -1)
	if err != nil || all == nil {
		t.Fatalf("mariatest: %s has no position: %v: %s", n.name, err, text)
	}
	last := all[len(all)-1]
	return last[1] + ":" + last[2]
}

// position is the number of recovered.
func (n *Node) position(t testing.TB) int {
	t.Helper()
	_, number, _ := strings.Cut(n.recovered(t), ":")
	position, err := strconv.Atoi(number)
	if err != nil {
		t.Fatal(err)
	}
	return position
}

func (n *Node) data() string { return filepath.Join(n.cluster.directory, n.name) }

func (n *Node) file(end string) string { return n.data() + "." + end }

// log is the end of the server's log.
func (n *Node) log(most int) []byte {
	text, _ := os.ReadFile(n.file("err"))
	return text[max(0, len(text)-most):]
}

// query sends a statement with the client of the machine, and returns what it prints.
func (n *Node) query(statement string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), readyWithin)
	defer cancel()
	client := exec.CommandContext(ctx, "mariadb", "--no-defaults", "--connect-timeout=5", "-N", "-uidem", "-pidem", "-h"+n.ip,
		"-P"+sqlPort, "-e", statement)
	output, err := client.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("mariatest: %s: %s: %w: %s", n.name, statement, err, output)
	}
	return string(output), nil
}

// galera is the path of the library.
func galera() (string, error) {
	for _, directory := range []string{"/usr/lib/galera", "/usr/lib64/galera-4", "/usr/lib64/galera", "/usr/lib/galera-4"} {
		path := filepath.Join(directory, "libgalera_smm.so")
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", ErrNoGalera
}

// freeSubnet is the beginning of addresses that no other cluster of this machine has.
func freeSubnet() (string, error) {
	for try := range 1000 {
		at := (os.Getpid() + try) % 60000
		subnet := fmt.Sprintf("127.%d.%d.", 1+at/250, 1+at%250)
		if listener, err := net.Listen("tcp", subnet+"1:"+groupPort); err == nil {
			return subnet, listener.Close()
		}
	}
	return "", errors.New("mariatest: there are no free addresses")
}
