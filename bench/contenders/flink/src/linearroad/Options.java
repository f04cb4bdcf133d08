package linearroad;

import java.util.HashMap;
import java.util.Map;

/** The options of the command line: a name and a value each. */
final class Options {
    private final Map<String, String> values = new HashMap<>();
    private final String usage;

    private Options(String usage) {
        this.usage = usage;
    }

    static Options parse(String[] words, String usage) {
        Options options = new Options(usage);
        for (int at = 0; at < words.length; at += 2) {
            String name = words[at].startsWith("--") ? words[at].substring(2) : "";
            if (at + 1 == words.length || !usage.contains("--" + name + " ") && !name.equals("checkpoints")) {
                throw options.fail(words[at] + ": not an option with a value");
            }
            options.values.put(name, words[at + 1]);
        }
        return options;
    }

    String text(String name) {
        if (!values.containsKey(name)) {
            throw fail("--" + name + " is missing");
        }
        return values.get(name);
    }

    int number(String name, int otherwise) {
        try {
            return values.containsKey(name) ? Integer.parseInt(values.get(name)) : otherwise;
        } catch (NumberFormatException error) {
            throw fail("--" + name + " " + values.get(name) + ": not a whole number");
        }
    }

    private RuntimeException fail(String what) {
        System.err.println("run.sh: " + what + "\nusage: " + usage);
        System.exit(2);
        return new IllegalStateException();
    }
}
