package cairn;

import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;

// Option=value pairs as RocksDB reads them.
final class OptionText {
  private final Map<String, String> values = new TreeMap<>();
  private final String before; // pairs that were given as text

  OptionText(final String before) {
    this.before = before;
  }

  void set(final String option, final Object value) {
    values.put(Objects.requireNonNull(option), Objects.requireNonNull(value).toString());
  }

  @Override
  public String toString() {
    final StringBuilder text = new StringBuilder(before);
    for (final Map.Entry<String, String> entry : values.entrySet()) {
      if (text.length() > 0 && text.charAt(text.length() - 1) != ';') {
        text.append(';');
      }
      text.append(entry.getKey()).append('=').append(entry.getValue());
    }
    return text.toString();
  }
}
