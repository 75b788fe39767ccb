// Boost.Interprocess by two processes that have nothing in common but names:
//   interprocess memory make|use|remove NAME     managed_shared_memory: a vector and a map in it
//   interprocess locks  make|use|remove NAME     named_mutex, named_condition, message_queue
// `make` makes the objects and waits until `use` has done its part; each says "ok" or what was wrong.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <utility>

#include <boost/interprocess/allocators/allocator.hpp>
#include <boost/interprocess/containers/map.hpp>
#include <boost/interprocess/containers/string.hpp>
#include <boost/interprocess/containers/vector.hpp>
#include <boost/interprocess/ipc/message_queue.hpp>
#include <boost/interprocess/managed_shared_memory.hpp>
#include <boost/interprocess/sync/named_condition.hpp>
#include <boost/interprocess/sync/named_mutex.hpp>
#include <boost/interprocess/sync/scoped_lock.hpp>

#include <unistd.h>

namespace bip = boost::interprocess;

using Segment = bip::managed_shared_memory::segment_manager;
using Vector = bip::vector<int, bip::allocator<int, Segment>>;
using Entry = std::pair<const int, double>;
using Map = bip::map<int, double, std::less<int>, bip::allocator<Entry, Segment>>;

[[noreturn]] static void wrong(const char *what)
{
	std::printf("wrong: %s\n", what);
	std::exit(1);
}

static void check(bool good, const char *what)
{
	if (!good)
		wrong(what);
}

static constexpr int COUNT = 10000;

static void make_memory(const std::string &name)
{
	bip::managed_shared_memory memory(bip::create_only, name.c_str(), 4 << 20);
	auto *done = memory.construct<std::atomic<int>>("done")(0);
	auto *vector = memory.construct<Vector>("vector")(memory.get_segment_manager());
	for (int i = 0; i < COUNT; i++)
		vector->push_back(i * 3);
	memory.construct<Map>("map")(std::less<int>(), memory.get_segment_manager());
	memory.construct<std::atomic<int>>("ready")(1);
	while (!*done)
		usleep(1000);
	auto *map = memory.find<Map>("map").first;
	check(map && map->size() == 100 && map->at(99) == 99.5, "the map that the other has filled");
	check((*vector)[17] == 1, "the element that the other has changed");
	check(memory.check_sanity(), "the allocator's own check");
}

static bip::managed_shared_memory open_memory(const std::string &name)
{
	for (int i = 0; i < 20000; i++) {
		try {
			return bip::managed_shared_memory(bip::open_only, name.c_str());
		} catch (const bip::interprocess_exception &) {
			usleep(1000);
		}
	}
	wrong("the memory does not come");
}

static void use_memory(const std::string &name)
{
	bip::managed_shared_memory memory = open_memory(name);
	while (!memory.find<std::atomic<int>>("ready").first)
		usleep(1000);
	auto *vector = memory.find<Vector>("vector").first;
	check(vector && vector->size() == COUNT && (*vector)[COUNT - 1] == (COUNT - 1) * 3, "the vector");
	(*vector)[17] = 1;
	auto *map = memory.find<Map>("map").first;
	for (int i = 0; i < 100; i++)
		map->insert(Entry(i, i + 0.5));
	*memory.find<std::atomic<int>>("done").first = 1;
}

static void make_locks(const std::string &name)
{
	bip::named_mutex mutex(bip::create_only, (name + ".mutex").c_str());
	bip::named_condition condition(bip::create_only, (name + ".condition").c_str());
	bip::message_queue answer(bip::create_only, (name + ".answer").c_str(), 1, sizeof(int));
	bip::message_queue queue(bip::create_only, (name + ".queue").c_str(), 8, sizeof(int));
	int sum = 0, value;
	bip::message_queue::size_type length;
	unsigned priority;
	for (int i = 0; i < 1000; i++) {
		queue.receive(&value, sizeof value, length, priority);
		check(length == sizeof value, "a message's length");
		sum += value;
	}
	check(sum == 999 * 1000 / 2, "the sum of what was received");
	bip::scoped_lock<bip::named_mutex> lock(mutex);
	answer.send(&sum, sizeof sum, 0);
	condition.wait(lock);
}

static void use_locks(const std::string &name)
{
	for (int i = 0;; i++) {
		try {
			bip::message_queue queue(bip::open_only, (name + ".queue").c_str());
			for (int value = 0; value < 1000; value++)
				queue.send(&value, sizeof value, 0);
			break;
		} catch (const bip::interprocess_exception &) {
			check(i < 20000, "the queue does not come");
			usleep(1000);
		}
	}
	bip::named_mutex mutex(bip::open_only, (name + ".mutex").c_str());
	bip::named_condition condition(bip::open_only, (name + ".condition").c_str());
	bip::message_queue answer(bip::open_only, (name + ".answer").c_str());
	int sum;
	bip::message_queue::size_type length;
	unsigned priority;
	// It is sent with the mutex held, which the other gives up only to wait.
	answer.receive(&sum, sizeof sum, length, priority);
	bip::scoped_lock<bip::named_mutex> lock(mutex);
	condition.notify_all();
}

static void remove_all(const std::string &name)
{
	bip::shared_memory_object::remove(name.c_str());
	bip::named_mutex::remove((name + ".mutex").c_str());
	bip::named_condition::remove((name + ".condition").c_str());
	bip::message_queue::remove((name + ".answer").c_str());
	bip::message_queue::remove((name + ".queue").c_str());
}

int main(int argc, char **argv)
{
	if (argc != 4)
		return 2;
	const std::string part = argv[1], role = argv[2], name = argv[3];
	const bool memory = part == "memory";
	try {
		if (role == "make")
			(memory ? make_memory : make_locks)(name);
		else if (role == "use")
			(memory ? use_memory : use_locks)(name);
		else
			remove_all(name);
	} catch (const std::exception &error) {
		wrong(error.what());
	}
	std::puts("ok");
}
