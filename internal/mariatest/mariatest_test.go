package mariatest

import "testing"

// TestMariaDBAvailable is the one test that fails where there is no MariaDB: those that need it are skipped.
func TestMariaDBAvailable(t *testing.T) {
	if _, err := server(); err != nil {
		t.Fatal(err)
	}
}

func TestCluster(t *testing.T) {
	c := NewCluster(t)
	c.Nodes[0].Exec(t, "CREATE DATABASE a")
	c.Nodes[1].Exec(t, "CREATE TABLE a.b (c int primary key) ENGINE=InnoDB")
	c.Nodes[2].Exec(t, "INSERT INTO a.b VALUES (1)")
	c.Nodes[1].Kill()
	c.Nodes[2].Exec(t, "INSERT INTO a.b VALUES (2)")
	c.Nodes[1].Restart(t)
	c.Nodes[1].Exec(t, "INSERT INTO a.b VALUES (3)")
	c.Nodes[0].Isolate(t, true)
	c.Nodes[2].Exec(t, "INSERT INTO a.b VALUES (4)")
	c.Nodes[0].Isolate(t, false)
	c.Nodes[0].Joined(t)
	c.KillAll()
	c.Recover(t)
	out, err := c.Nodes[0].query("SELECT COUNT(*) FROM a.b")
	t.Log(out, err)
}
