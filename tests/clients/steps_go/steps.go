package steps

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

func (s *session) createTopic() error {
	if err := s.create(s.topic, partitions); err != nil {
		return err
	}
	if err := s.client.CreateTopic(s.topic, partitions); !s.client.IsExists(err) {
		return fmt.Errorf("creating it again: %v", err)
	}
	topics, err := s.client.Topics()
	if err == nil && !slices.Contains(topics, s.topic) {
		err = fmt.Errorf("%s is not in %v", s.topic, topics)
	}
	return err
}

func (s *session) produce() error {
	for partition := range int32(partitions) {
		records := some(partition, perPartition, "plain")
		records[3].Value = nil
		records[4].Headers = nil
		if err := s.writeAndRead(s.topic, How{}, records); err != nil {
			return err
		}
		s.made = append(s.made, records...)
	}
	return nil
}

func (s *session) codec(name string) error {
	topic := s.name(name)
	if err := s.create(topic, 1); err != nil {
		return err
	}
	return s.writeAndRead(topic, How{Codec: name}, some(0, 200, name))
}

func (s *session) idempotent() error {
	topic := s.name("idempotent")
	if err := s.create(topic, 1); err != nil {
		return err
	}
	return s.writeAndRead(topic, How{Idempotent: true}, some(0, 200, "idempotent"))
}

func (s *session) consumeAll() error {
	if len(s.made) == 0 {
		return errors.New("nothing was produced")
	}
	for partition := range partitions {
		if err := s.reads(s.topic, s.made[partition*perPartition:][:perPartition]); err != nil {
			return fmt.Errorf("partition %d: %w", partition, err)
		}
	}
	return nil
}

// collect reads from the members until all the wanted values were seen, and gives how many each member has read.
func collect(members []Member, wanted map[string]bool) ([]int, error) {
	counts := make([]int, len(members))
	deadline := time.After(45 * time.Second)
	for len(wanted) > 0 {
		idle := true
		for n, member := range members {
			select {
			case record := <-member.Records():
				delete(wanted, string(record.Value))
				counts[n]++
				idle = false
			case <-deadline:
				return counts, fmt.Errorf("%d records were not read, the members have read %v", len(wanted), counts)
			default:
			}
		}
		if idle {
			time.Sleep(5 * time.Millisecond)
		}
	}
	return counts, nil
}

// feed produces a round of records and gives the values.
func (s *session) feed(topic, text string, next []int64) (map[string]bool, error) {
	wanted := map[string]bool{}
	for partition := range int32(partitions) {
		records := some(partition, 10, text)
		for n := range records {
			records[n].Offset = next[partition] + int64(n)
			wanted[string(records[n].Value)] = true
		}
		next[partition] += 10
		if _, err := s.client.Produce(topic, How{}, records); err != nil {
			return nil, err
		}
	}
	return wanted, nil
}

// groupOfThree lets three members share four partitions until each of them reads; then one leaves, and the others read all.
func (s *session) groupOfThree() error {
	topic, group := s.name("three"), s.name("three")
	if err := s.create(topic, partitions); err != nil {
		return err
	}
	next := make([]int64, partitions)
	var members []Member
	defer func() {
		for _, member := range members {
			member.Close()
		}
	}()
	for range 3 {
		member, err := s.client.Join(group, topic)
		if err != nil {
			return fmt.Errorf("join: %w", err)
		}
		members = append(members, member)
	}
	shared := false
	for round := 0; !shared; round++ {
		wanted, err := s.feed(topic, fmt.Sprintf("round-%d", round), next)
		if err != nil {
			return err
		}
		counts, err := collect(members, wanted)
		if err != nil {
			return fmt.Errorf("three members: %w", err)
		}
		shared = !slices.Contains(counts, 0)
	}
	leaver := members[0]
	members = members[1:]
	if err := leaver.Close(); err != nil {
		return fmt.Errorf("leave: %w", err)
	}
	wanted, err := s.feed(topic, "late", next)
	if err == nil {
		_, err = collect(members, wanted)
	}
	if err != nil {
		return fmt.Errorf("two members: %w", err)
	}
	return nil
}

func (s *session) commitResume() error {
	topic, group := s.name("resume"), s.name("resume")
	if err := s.create(topic, 1); err != nil {
		return err
	}
	records := some(0, 20, "resume")
	if _, err := s.client.Produce(topic, How{}, records); err != nil {
		return err
	}
	offset, _, err := s.client.Committed(group, topic, 0)
	if err != nil || offset != -1 {
		return fmt.Errorf("before any commit: %d %v", offset, err)
	}
	if err := s.readsFrom(group, topic, records[0], 8); err != nil {
		return fmt.Errorf("from the start: %w", err)
	}
	if offset, _, err = s.client.Committed(group, topic, 0); err != nil || offset != 8 {
		return fmt.Errorf("after the member's commit: %d %v", offset, err)
	}
	if err := s.readsFrom(group, topic, records[8], 2); err != nil {
		return fmt.Errorf("from its commit: %w", err)
	}
	if err := s.client.Commit(group, topic, 0, 15, "a note"); err != nil {
		return fmt.Errorf("commit from outside: %w", err)
	}
	offset, metadata, err := s.client.Committed(group, topic, 0)
	if err != nil || offset != 15 || (metadata != "a note" && metadata != "") {
		return fmt.Errorf("after a commit from outside: %d %q %v", offset, metadata, err)
	}
	return s.readsFrom(group, topic, records[15], 1)
}

// readsFrom joins, expects the record first, reads so many, commits and leaves.
func (s *session) readsFrom(group, topic string, first Record, count int) error {
	member, err := s.client.Join(group, topic)
	if err != nil {
		return err
	}
	defer member.Close()
	for n := range count {
		select {
		case record := <-member.Records():
			if n == 0 && record.Offset != first.Offset {
				return fmt.Errorf("began at %d, expected %d", record.Offset, first.Offset)
			}
			if n == count-1 {
				if err := member.Commit(topic, record); err != nil {
					return fmt.Errorf("commit: %w", err)
				}
			}
		case <-time.After(30 * time.Second):
			return errors.New("nothing is read")
		}
	}
	return member.Close()
}

func (s *session) seekByTime() error {
	if len(s.made) == 0 {
		return errors.New("nothing was produced")
	}
	at := s.made[7].Time
	for _, look := range []struct {
		at       time.Time
		expected int64
	}{{at, 7}, {at.Add(-400 * time.Millisecond), 7}, {at.Add(time.Millisecond), 8}, {at.Add(-time.Hour), 0}, {at.Add(time.Hour), -1}} {
		offset, err := s.client.OffsetAt(s.topic, 0, look.at)
		if err != nil {
			return err
		}
		if err := same("the offset at "+look.at.Sub(at).String(), offset, look.expected); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) offsets() error {
	return s.bounds(s.topic, 0, perPartition)
}

func (s *session) bounds(topic string, first, next int64) error {
	gotFirst, gotNext, err := s.client.Bounds(topic, 0)
	if err == nil {
		err = same("bounds", [2]int64{gotFirst, gotNext}, [2]int64{first, next})
	}
	return err
}

func (s *session) describeConfigs() error {
	value, err := s.client.Config(s.topic, "cleanup.policy")
	if err == nil {
		err = same("cleanup.policy", value, "delete")
	}
	return err
}

func (s *session) alterConfigs() error {
	if err := s.client.SetConfig(s.topic, "retention.ms", "123456789"); err != nil {
		return err
	}
	return eventually("the setting is seen", func() (bool, error) {
		value, err := s.client.Config(s.topic, "retention.ms")
		return value == "123456789", err
	})
}

func (s *session) createPartitions() error {
	if err := s.client.AddPartitions(s.topic, 6); err != nil {
		return err
	}
	err := eventually("six partitions", func() (bool, error) {
		count, err := s.client.Partitions(s.topic)
		return count == 6, err
	})
	if err != nil {
		return err
	}
	return s.writeAndRead(s.topic, How{}, some(5, 10, "sixth"))
}

func (s *session) deleteRecords() error {
	if err := s.client.DeleteRecords(s.topic, 0, 10); err != nil {
		return err
	}
	if err := s.bounds(s.topic, 10, perPartition); err != nil {
		return err
	}
	return s.reads(s.topic, s.made[10:perPartition])
}

func (s *session) listGroups() error {
	groups, err := s.client.Groups()
	if err == nil && !slices.Contains(groups, s.name("resume")) {
		err = fmt.Errorf("%s is not in %v", s.name("resume"), groups)
	}
	return err
}

func (s *session) describeGroup() error {
	group := s.name("resume")
	err := eventually("the group is empty", func() (bool, error) {
		state, members, err := s.client.DescribeGroup(group)
		return state == "Empty" && members == 0, err
	})
	if err != nil {
		return err
	}
	member, err := s.client.Join(group, s.name("resume"))
	if err != nil {
		return err
	}
	defer member.Close()
	return eventually("the group is stable", func() (bool, error) {
		state, members, err := s.client.DescribeGroup(group)
		return state == "Stable" && members == 1, err
	})
}

func (s *session) deleteGroup() error {
	group := s.name("resume")
	err := eventually("the group is deleted", func() (bool, error) {
		err := s.client.DeleteGroup(group)
		return err == nil, err
	})
	if err != nil {
		return err
	}
	groups, err := s.client.Groups()
	if err == nil && slices.Contains(groups, group) {
		err = errors.New("the group is still listed")
	}
	return err
}

func (s *session) deleteTopic() error {
	if err := s.client.DeleteTopic(s.topic); err != nil {
		return err
	}
	return eventually("the topic is gone", func() (bool, error) {
		topics, err := s.client.Topics()
		return !slices.Contains(topics, s.topic), err
	})
}

func (s *session) unknownTopic() error {
	if err := s.client.DeleteTopic(s.name("nowhere")); !s.client.IsUnknown(err) {
		return fmt.Errorf("deleting what is not there: %v", err)
	}
	return nil
}
